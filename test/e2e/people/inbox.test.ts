import type { InboxItem, PassRow } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cli, ECHO, json, openProject, type Project, run, type Spawned, show, until } from '../../support/fixtures/cli.js'

/** A worker that finds something grave and proposes three changes; `plain` ones only propose. */
const CRITIC = `let text=''; process.stdin.on('data', (chunk) => text += chunk).on('end', () => {
  const plain = JSON.parse(text).work_context.objective === 'plain'
  const change = (path) => ({ type: 'file_modification', path, old_content: 'a\\n', new_content: 'b\\nc\\n', reason: 'better', confidence: 'high' })
  const finding = { type: 'finding', severity: 'error', category: 'x', message: 'a grave one' }
  console.log(JSON.stringify({ status: 'completed', artifacts: [...(plain ? [] : [finding]), change('one'), change('two'), change('three')] }))
})`

let project: Project
let cwd: string
const workers: Spawned[] = []

beforeAll(async () => {
  project = await openProject()
  cwd = project.cwd
  for (const [name, script] of [
    ['echo', ECHO],
    ['critic', CRITIC],
  ] as const) {
    const worker = cli(['work', name, '--concurrency', '4', '--', 'node', '-e', script], { cwd })
    await worker.printed(`Working as ${name}`, 'stderr')
    workers.push(worker)
  }
})
afterAll(async () => {
  for (const worker of workers) await worker[Symbol.asyncDispose]()
  await project?.[Symbol.asyncDispose]()
})

const inbox = async (...args: string[]) => (await json<InboxItem[]>(['inbox', ...args], { cwd })).document
/** A pass that nobody waits for, and what waits of it. */
async function pass(args: string[], from = 'alice'): Promise<InboxItem> {
  const asked = await json<PassRow>(['request', '--from', from, ...args, '--no-wait'], { cwd })
  expect(asked.code, asked.stderr).toBe(0)
  let found: InboxItem | undefined
  await until('it waits', async () => {
    found = (await inbox()).find(({ id }) => id === asked.document.id)
    return found !== undefined
  })
  return found as InboxItem
}
const dueOf = async (id: string) => (await inbox()).find((item) => item.id === id)?.item

describe('inbox', () => {
  it('shows what waits, oldest first, with everything and the command to type', async () => {
    const held = await pass(['--to', 'echo', '--objective', 'may I', '--hold'], 'ida')
    const returned = await pass(['--to', 'critic', '--objective', 'look'], 'ida')
    expect(await inbox('--from', 'ida')).toMatchObject([
      { item: 'dispatch', id: held.id, asked: { objective: 'may I', files: [] }, digest: expect.stringMatching(/^[0-9a-f]{64}$/) },
      {
        item: 'return',
        id: returned.id,
        why: 'the output has a critical finding',
        returned: { findings: { error: 1 }, modifications: [{ number: 1, path: 'one', added: 2, removed: 1 }, {}, {}] },
      },
    ])
    const { stdout } = await run(['inbox', '--from', 'ida'], { cwd })
    expect(stdout).toContain('ida → echo')
    expect(stdout).toMatch(/expires in 24 h/)
    expect(stdout).toContain('a grave one')
    expect(stdout).toContain('3. three  +2 -1  better (confidence high)')
    expect(stdout).toContain(`passover approve ${held.id} --item dispatch --from ida --to `)
    expect((await run(['show', returned.id], { cwd })).stdout).toContain('Waits for a decision')
    expect(await run(['inbox', '--from', 'nobody'], { cwd })).toMatchObject({ code: 0, stdout: 'No items wait for a decision.\n' })
    expect(await inbox('--from', 'nobody')).toEqual([])
    expect(await inbox('--mine', '--as', 'ida', '--from', 'ida')).toEqual([])
  })

  it('is worked off item by item: the release, then the changes that are taken', async () => {
    const { id } = await pass(['--to', 'critic', '--objective', 'look'])
    const early = await json<{ error: { code: string; hint: string } }>(['approve', id, '--only', '1'], { cwd })
    expect(early).toMatchObject({ code: 2, document: { error: { code: 'E042', hint: expect.stringContaining('--item return') } } })
    const released = await run(['approve', id, '--as', 'bob'], { cwd })
    expect(released).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`passover approve ${id} --item apply --from alice --to critic`),
    })
    expect(await dueOf(id)).toBe('apply')
    // Carol means the release that she saw, and must not decide about the changes unseen.
    const late = await run(['approve', id, '--item', 'return', '--as', 'carol'], { cwd })
    expect(late).toMatchObject({ code: 0, stdout: expect.stringContaining('bob (unverified) already decided') })
    expect(await dueOf(id)).toBe('apply')
    const none = await json<{ error: { message: string } }>(['approve', id, '--only', '1,4'], { cwd })
    expect(none).toMatchObject({
      code: 2,
      document: { error: { code: 'E042', message: expect.stringContaining('its changes are 1 to 3') } },
    })
    // What it prints to type means this pass only, also where another agent has one with that id.
    const which = `${id} --item apply --from alice --to critic`
    expect(await run(['approve', id, '--only', '1,3'], { cwd })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`passover approve ${which} --only 1,3 --digest `),
    })
    expect(await run(['approve', id, '--digest', 'f'.repeat(64)], { cwd })).toMatchObject({
      code: 4,
      stderr: expect.stringContaining(`to review the changes: passover apply ${id} --from alice --to critic --dry-run`),
    })
    const taken = await json<{ modifications: Record<string, string>; decided: boolean }>(['approve', id, '--only', '1,3', '--yes'], {
      cwd,
    })
    expect(taken).toMatchObject({ code: 0, document: { item: 'apply', decided: true } })
    expect(Object.values(taken.document.modifications)).toEqual(['taken', 'rejected', 'taken'])
    expect(await dueOf(id)).toBeUndefined()
    expect((await show(id, cwd)).decisions).toMatchObject([
      { item: 'return', person: 'bob', verdict: 'approve' },
      { item: 'apply', verdict: 'approve', modifications: taken.document.modifications },
    ])
    expect(await run(['approve', id], { cwd })).toMatchObject({ stdout: expect.stringContaining('(unverified) already decided: approved') })
  })

  it('says no to a result, which its originator then does not get, and to changes, of which none is taken', async () => {
    const grave = await pass(['--to', 'critic', '--objective', 'look'])
    expect(await run(['deny', grave.id, '--as', 'bob', '--reason', 'too grave'], { cwd })).toMatchObject({ code: 0 })
    expect(await dueOf(grave.id)).toBeUndefined()
    expect((await json<PassRow>(['list', '--from', 'alice', '--limit', '1'], { cwd })).document).toMatchObject([
      { id: grave.id, status: 'returned', code: 'E013' },
    ])
    const again = await run(['approve', grave.id, '--as', 'carol'], { cwd })
    expect(again).toMatchObject({ code: 6, stdout: expect.stringContaining('bob (unverified) already decided: denied') })
    const changing = await pass(['--to', 'critic', '--objective', 'plain'])
    expect(changing.item).toBe('apply')
    expect(await run(['deny', changing.id, '--as', 'bob'], { cwd })).toMatchObject({
      stdout: expect.stringContaining('no change is applied'),
    })
  })

  it('tells two people who decide about the same changes who was faster', async () => {
    const { id } = await pass(['--to', 'critic', '--objective', 'plain'])
    const people = ['bob', 'carol'] as const
    const ended = await Promise.all(people.map((as, n) => run(['approve', id, '--only', String(n + 1), '--yes', '--as', as], { cwd })))
    const { decisions } = await show(id, cwd)
    const counted = decisions.filter((one) => !('counts' in one) || one.counts !== false)
    expect(counted).toHaveLength(1)
    const loser = ended[counted[0]?.person === 'bob' ? 1 : 0]
    expect(loser?.stdout).toContain(`${counted[0]?.person} (unverified) already decided`)
  })
})
