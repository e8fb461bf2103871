import type { InboxItem } from '@passover/schemas'
import type { Agent } from '@passover/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { faultsAtTerminal, HOSTILE } from '../../support/attacks/hostile-text.js'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { atTerminal, Folder, hasTerminal, json, run, until } from '../../support/fixtures/cli.js'

const document = { pairs: { 'alice->vault': { hold_before_dispatch: true } } }
const BIG = 400_000
const HIDDEN = ['in-the-background', 'in-a-message', 'in-a-tool-result', 'in-a-file', 'in-an-unknown-field', 'in-a-todo']

interface WholeRequest {
  digest: string
  request: { reason: string }
  parts: { name: string; size: number; text: string }[]
}

let world: AgentWorld
let folder: Folder
let alice: Agent
beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document } }], audit: { open: true } } as never)
  folder = new Folder()
  alice = await world.agent('alice')
  await (await world.agent('vault')).onPass(() => 'opened')
})
afterAll(async () => {
  folder?.[Symbol.dispose]()
  await world?.[Symbol.asyncDispose]()
})

const env = () => ({ PASSOVER_SERVER: world.world.nats.url })
const at = () => ({ cwd: folder.path, env: env() })

/** A held pass, whose whole context is more than its objective. */
async function held(more: object = {}) {
  const [background, inMessage, output, content, extra, todo] = HIDDEN
  const work_context = {
    objective: 'fix a typo',
    background: `${background} ${HOSTILE}`,
    messages: [{ id: 'm1', role: 'user', timestamp: 1, parts: [{ id: 'p1', type: 'text', text: `${inMessage} ${HOSTILE}` }] }],
    tool_results: [{ tool_name: 'x', call_id: 'c1', status: 'completed', input: {}, output, timestamp: 1 }],
    files: [{ path: 'a.txt', content: `first line\n${content} ${HOSTILE}` }],
    todos: [{ content: todo }],
    metadata: { extra },
    ...more,
  }
  const handle = alice.passOver({ subagent: 'vault', reason: 'typo', work_context } as never)
  handle.catch(() => undefined)
  let item: InboxItem | undefined
  await until('it waits', async () => {
    item = (await json<InboxItem[]>(['inbox'], at())).document.find(({ id }) => id === handle.id)
    return item !== undefined
  })
  return { handle, id: handle.id, digest: (item as InboxItem).digest }
}

describe('passover approve of a start', () => {
  it('without a terminal shows the whole request and approves nothing, unless its digest or --yes is given', async () => {
    const { handle, id, digest } = await held()
    for (const more of [['--no-input'], ['--json'], ['--digest', '0'.repeat(64)]]) {
      const { code, stderr } = await run(['approve', id, '--item', 'dispatch', '--as', 'maria', ...more], at())
      if (more[0] === '--digest')
        expect({ code, stderr }).toMatchObject({ code: 4, stderr: expect.stringContaining(`${id} --from alice --to vault --full-request`) })
      else {
        expect(code).toBe(2)
        for (const text of HIDDEN) expect(stderr, more[0]).toContain(text)
        expect(faultsAtTerminal(stderr).filter((fault) => !fault.includes('¶'))).toEqual([])
        expect(stderr).toContain(`Digest of this request: ${digest}`)
      }
    }
    const refused = await json<{ error: { code: string; hint: string } }>(['approve', id, '--as', 'maria'], at())
    expect(refused.document.error).toMatchObject({
      code: 'E042',
      hint: `to approve exactly this request: passover approve ${id} --item dispatch --from alice --to vault --digest ${digest}`,
    })
    expect((await json<{ decisions: unknown[] }>(['show', id], at())).document.decisions).toEqual([])
    const approved = await run(['approve', id, '--digest', digest, '--as', 'maria'], at())
    expect(approved).toMatchObject({ code: 0, stderr: expect.not.stringContaining('in-a-message') })
    expect((await handle).output).toBe('opened')

    const other = await held()
    const yes = await run(['approve', other.id, '--yes', '--as', 'maria'], at())
    expect(yes).toMatchObject({ code: 0, stderr: expect.stringContaining('in-a-message') })
    expect((await other.handle).output).toBe('opened')
  })

  it.skipIf(!hasTerminal())('at a terminal shows the whole request before it asks', async () => {
    const { handle, id } = await held()
    await using asked = atTerminal(['approve', id, '--as', 'maria'], folder.path, env())
    await asked.printed('Approve the start')
    for (const text of HIDDEN) expect(asked.stdout).toContain(text)
    asked.child.stdin?.write('y')
    expect((await asked.ended).code).toBe(0)
    expect((await handle).output).toBe('opened')
  })

  it('says what of a large request it does not show, and show --full-request prints all of it, also parts that are stored separately', async () => {
    const files = [{ path: 'big.txt', content: `${'y'.repeat(BIG)}at-the-end` }]
    const { id, digest } = await held({ files })
    const { stderr } = await run(['approve', id, '--as', 'maria'], at())
    expect(stderr).toContain('in-a-message')
    expect(stderr).not.toContain('at-the-end')
    const shown = stderr.match(/y{100,}/)?.[0].length ?? 0
    const rest = BIG + 'at-the-end'.length - shown
    expect(stderr).toContain(`⚠ not shown: the last ${rest} characters`)
    expect(stderr).toContain(`⚠ Not shown of this request: ${rest} characters`)
    expect(stderr).toContain(`passover show ${id} --from alice --to vault --full-request`)

    const { stdout } = await run(['show', id, '--full-request'], at())
    for (const text of ['in-a-message', 'at-the-end', 'reason: typo']) expect(stdout).toContain(text)
    expect(stdout).not.toContain('ot shown')
    const whole = (await json<WholeRequest>(['show', id, '--full-request'], at())).document
    expect(whole).toMatchObject({ digest, request: { reason: 'typo' } })
    expect(whole.parts.find(({ name }) => name === 'file:big.txt')).toMatchObject({ text: files[0]?.content })
    await run(['deny', id, '--as', 'maria'], at())
  })
})
