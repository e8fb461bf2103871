import type { DeadLetter, PassKey, PassRow } from '@passover/schemas'
import type { Agent } from '@passover/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { Folder, json, run, show, until } from '../../support/fixtures/cli.js'

/** What `lost` is given again is worked on by somebody real, who keeps it for longer than this process may get no processor. */
const LEASES: Record<string, number> = { lost: 4_000 }
const leaseOf = (subagent: string) => LEASES[subagent] ?? 300
const document = { defaults: { max_attempts: 1, lease_ms: 300, timeout_ms: 120_000 }, subagents: { lost: { lease_ms: leaseOf('lost') } } }

let world: AgentWorld
let folder: Folder
let alice: Agent
beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document } }], audit: { open: true } } as never)
  folder = new Folder()
  alice = await world.agent('alice')
})
afterAll(async () => {
  folder?.[Symbol.dispose]()
  await world?.[Symbol.asyncDispose]()
})

type Letter = DeadLetter & { text?: string; timeline?: { kind: string }[] }
type Failure = { error: { code: string; message: string; hint: string } }

const at = () => ({ cwd: folder.path, env: { PASSOVER_SERVER: world.world.nats.url } })
const list = async (...args: string[]) => (await json<Letter[]>(['dlq', 'list', ...args], at())).document
const stored = (key: PassKey) => world.world.bus.journal.newest(world.world.bus.subjects.eventsOf(key, 'settled'))
const context = (content = 'let a = 1') => ({ objective: 'look', files: [{ path: 'a.ts', content }] })

/** Its only attempt is taken and never finished. The server looks for lost deliveries only while somebody asks for more. */
async function lose(key: PassKey): Promise<void> {
  await using source = world.world.workSource('medium', key.subagent)
  const isOver = async () => (await world.world.journal(key)).state === 'done'
  while (!(await isOver())) await source.pull({ batch: 1, expires_ms: 300 }, () => undefined)
}

/** A pass whose only attempt is taken and never finished: the server gives it up. */
async function crashed(subagent: string, content?: string): Promise<PassKey> {
  const { bus } = world.world
  await world.world.agentRecord(subagent)
  await bus.ensureAgent(subagent, { subagent: true, max_attempts: 1, lease_ms: leaseOf(subagent) })
  const handle = alice.passOver({ subagent, reason: 'x', work_context: context(content) })
  const ended = expect(handle).rejects.toMatchObject({ code: 'E011' })
  const key = { originator: 'alice', subagent, id: handle.id }
  await lose(key)
  await ended
  return key
}

describe('dlq', () => {
  it('shows lost work, and two people requeue it at once: one new pass, linked both ways, with the context of old', async () => {
    const key = await crashed('lost')
    const [letter] = await list('--to', 'lost')
    expect(letter).toMatchObject({ ...key, what: 'work', state: 'open', code: 'E011', attempts: 1, settled_sequence: 0 })
    const { stdout } = await run(['dlq', 'show', key.id.slice(0, 20)], at())
    expect(stdout).toContain(`passover dlq requeue ${key.id}`)
    expect(stdout).toMatch(/attempts\s+1/)
    expect(await run(['dlq', 'requeue', key.id, '--dry-run'], at())).toMatchObject({ code: 0 })
    expect(await stored(key)).toBeUndefined()

    const worker = await world.agent('lost')
    const files: string[] = []
    await worker.onPass((pass) => {
      files.push(String(pass.context.files[0]?.content))
      return 'found it'
    })
    const people = ['ann', 'bob']
    const done = await Promise.all(
      people.map((as) => json<Record<string, unknown>[]>(['dlq', 'requeue', key.id, '--as', as, '--reason', 'mended'], at())),
    )
    expect(done.map(({ code }) => code)).toEqual([0, 0])
    const [one, two] = done.map(({ document: [document] }) => document)
    expect([one?.requeued, two?.requeued].sort()).toEqual([false, true])
    expect(one?.requeued_as).toBe(two?.requeued_as)
    expect(one?.by).toBe(two?.by)
    const id = String(one?.requeued_as)
    await until('it is done', async () => (await show(id, at().cwd).catch(() => undefined))?.status === 'returned' || files.length > 0)
    const again = await json<PassRow & { timeline: { kind: string }[] }>(['show', id], at())
    expect(again.document).toMatchObject({ originator: 'alice', retry_of: key.id })
    expect(files).toEqual(['let a = 1'])
    expect(again.document.timeline.filter(({ kind }) => kind === 'work')).toHaveLength(1)

    const before = await json<PassRow & { record: { settlement: object } }>(['show', key.id], at())
    expect(before.document).toMatchObject({ requeued_as: id, record: { settlement: { action: 'requeue', by: one?.by, reason: 'mended' } } })
    expect((await list('--to', 'lost'))[0]).toMatchObject({ state: 'requeued', settlement: { requeued_as: id } })
    expect(await list('--to', 'lost', '--state', 'open')).toEqual([])
    const dropped = await json<Record<string, unknown>[]>(['dlq', 'drop', key.id, '--as', 'cem'], at())
    expect(dropped).toMatchObject({ code: 1, document: [{ dropped: false, action: 'requeue', by: one?.by }] })
  })

  it('shows the bytes of a malformed request, which can only be dropped: by whom, when and why stays, and so does the letter', async () => {
    const bad = await world.world.send(Buffer.from('{"nonsense": \u001b[31m'), { to: 'lost' })
    const key = { originator: bad.originator, subagent: bad.subagent, id: bad.id }
    await world.world.end(key)
    await until('it is told', async () => (await list()).some(({ id }) => id === bad.id))
    expect((await list('--limit', '1'))[0]?.id).toBe(bad.id)
    const shown = await json<Letter>(['dlq', 'show', bad.id], at())
    expect(shown.document).toMatchObject({ what: 'request', code: 'E005', text: '{"nonsense": \u001b[31m' })
    expect((await run(['dlq', 'show', bad.id], at())).stdout).toContain('{"nonsense": ␛[31m')
    expect(await json<Failure>(['dlq', 'requeue', bad.id], at())).toMatchObject({ code: 2, document: { error: { code: 'E005' } } })
    expect(await stored(key)).toBeUndefined()
    const mine = await json<object[]>(['dlq', 'drop', bad.id, '--as', 'ann', '--reason', 'a typo'], at())
    expect(mine).toMatchObject({ code: 0, document: [{ dropped: true, by: 'ann' }] })
    expect(await json<object[]>(['dlq', 'drop', bad.id, '--as', 'bob'], at())).toMatchObject({
      code: 0,
      document: [{ dropped: false, by: 'ann', reason: 'a typo' }],
    })
    const { stdout } = await run(['dlq', 'list'], at())
    expect(stdout).toContain('dropped by ann (unverified): a typo')
    expect((await world.world.bus.journal.message(bad.sequence))?.subject).toBe('request.lost.alice')
  })

  it('does not requeue what has lost a part of its context: exit 3, and nothing is recorded', async () => {
    const key = await crashed('part', 'x'.repeat(300_000))
    const journal = await world.world.journal(key)
    const work = journal.state === 'done' ? journal.work : undefined
    const body = (await world.world.body(work?.sequence ?? 0)) as { parts: { name: string; hash: string; data?: Uint8Array }[] }
    const moved = body.parts.find(({ data }) => !data)
    await world.world.bus.parts.remove('alice', moved?.hash ?? '')
    const refused = await json<Failure>(['dlq', 'requeue', key.id], at())
    expect(refused).toMatchObject({ code: 3, document: { error: { code: 'E041', message: expect.stringContaining('file:a.ts') } } })
    expect(await stored(key)).toBeUndefined()
    expect(await json<Failure>(['retry', key.id], at())).toMatchObject({
      code: 3,
      document: {
        error: { code: 'E041', message: expect.stringMatching(/cannot be retried: its context is no longer stored: .*file:a\.ts/) },
      },
    })
  })

  it('does many only where it is said, streams a line each with --jsonl, pages, and says what is not there', async () => {
    const keys = [await crashed('many'), await crashed('many')]
    const refused = await json<Failure>(['dlq', 'drop', '--all', '--to', 'many'], at())
    expect(refused).toMatchObject({ code: 2, document: { error: { message: 'this command would drop 2 dead letters' } } })
    const dry = await json<{ would_drop: string[] }>(['dlq', 'drop', '--all', '--to', 'many', '--dry-run'], at())
    expect(dry.document.would_drop.sort()).toEqual(keys.map(({ id }) => id).sort())
    const [newest] = await list('--to', 'many', '--limit', '1')
    const [older] = await list('--to', 'many', '--limit', '1', '--before', String(newest?.sequence))
    expect([newest?.id, older?.id]).toEqual([...keys].reverse().map(({ id }) => id))
    const lines = (await run(['dlq', 'drop', '--all', '--to', 'many', '--yes', '--jsonl'], at())).stdout.trim().split('\n')
    expect(lines.map((line) => JSON.parse(line).dropped)).toEqual([true, true])
    for (const id of ['nothing-like-it', 'x y', '../../etc', '*', 'x'.repeat(80)])
      expect(await json<Failure>(['dlq', 'show', id], at()), id).toMatchObject({ code: 3, document: { error: { code: 'E041' } } })
    expect(await json<Failure>(['dlq', 'show', ''], at())).toMatchObject({ code: 2, document: { error: { code: 'E042' } } })
    expect(await run(['dlq', 'list', '--from', 'nobody'], at())).toMatchObject({ code: 0, stdout: 'No dead letters.\n' })
    expect(await list('--from', 'nobody')).toEqual([])
  })

  it('does not requeue a child whose parent has ended (exit 4): it would have more than it was given', async () => {
    const { bus } = world.world
    for (const name of ['upper', 'lower']) {
      await world.world.agentRecord(name)
      await bus.ensureAgent(name, { subagent: true, max_attempts: 1, lease_ms: 300 })
    }
    const root = await world.world.ask({ to: 'upper' })
    const journal = await world.world.state(root, 'open')
    const { return_id } = await world.world.work(root)
    const child = await world.world.ask({ from: 'upper', to: 'lower', parent: { ...root, return_id, proof: journal.valid } })
    await lose(child)
    expect((await world.world.end(child)).error).toMatchObject({ code: 'E011' })
    await world.world.cancel(root)
    await world.world.end(root)
    await until('it is told', async () => (await list('--to', 'lower')).length === 1)
    const refused = await json<Failure>(['dlq', 'requeue', child.id], at())
    expect(refused).toMatchObject({ code: 4, document: { error: { code: 'E013', message: expect.stringContaining(root.id) } } })
    expect(await stored(child)).toBeUndefined()
  })
})
