import { decode } from '@passover/bus'
import { expect, it } from 'vitest'
import { RemovalAnnouncer } from './removal-announcer.js'

/** What is said at the beginning, where the archive is this and custody stands there. */
async function begun({
  segments = [] as { k: number; removed?: object }[],
  since = undefined as number | undefined,
  outcome = { kind: 'stored', sequence: 8 } as { kind: string; sequence?: number },
}) {
  const said: unknown[] = []
  const entries = segments.map((one) => ({
    count: 1,
    first_time: one.k,
    last_time: one.k,
    chain_before: `${one.k}`,
    chain_after: `${one.k + 1}`,
    ...one,
  }))
  const custody = { position: 7, removals_since: since }
  const announcer = new RemovalAnnouncer({
    bus: {
      subjects: { custody: () => 'custody.passover', all: () => 'custody.*' },
      publish: async ({ data }: { data: Uint8Array }) => {
        const body = decode(data)
        said.push(body.ok && body.value)
        return outcome
      },
    },
    log: { info: () => undefined, warn: () => undefined },
    manifest: { all: async () => entries, newest: async () => entries.at(-1) },
    watch: { custody, current: async () => custody },
  } as never)
  return { is: await announcer.isBegun(), said }
}

it('begins once there is an archive, and says what had been removed before; not where another audit did', async () => {
  expect(await begun({})).toEqual({ is: false, said: [] })
  expect(await begun({ segments: [{ k: 0 }], since: 4 })).toEqual({ is: true, said: [] })
  expect(await begun({ segments: [{ k: 0 }] })).toEqual({ is: true, said: [{ v: 1, kind: 'removals', begins: 0, untold: [] }] })
  const run = (from: number, to: number) => expect.objectContaining({ from, to, entries: to - from + 1 })
  const removed = {}
  const segments = [{ k: 3, removed }, { k: 4, removed }, { k: 5 }, { k: 6, removed }]
  expect((await begun({ segments })).said).toEqual([{ v: 1, kind: 'removals', begins: 3, untold: [run(3, 4), run(6, 6)] }])
})

// Fails where it takes what it has read so far for all: what another audit told and marked then looks as if a thief had marked it.
it('looks at all that was said before it says that nothing tells of a segment', async () => {
  const run = { from: 3, to: 3, chain_before: 'a', chain_after: 'b' }
  const tells = (chain_after: string, ...reads: (typeof run | undefined)[]) => {
    const custody = { toldOf: () => reads[0] }
    const announcer = new RemovalAnnouncer({
      manifest: { entry: async () => ({ k: 3, chain_after }) },
      watch: { custody, current: async () => void (reads.length > 1 && reads.shift()) },
    } as never)
    return announcer.tells(3)
  }
  expect(await tells('b', run)).toBe(true)
  expect(await tells('b', undefined, run)).toBe(true)
  expect(await tells('b', { ...run, chain_after: 'former' }, run)).toBe(true)
  expect(await tells('b', undefined)).toBe(false)
  expect(await tells('anew', run)).toBe(false)
})

it('is not begun where another was faster, and not known where nobody answers', async () => {
  expect((await begun({ segments: [{ k: 0 }], outcome: { kind: 'lost' } })).is).toBe(false)
  await expect(begun({ segments: [{ k: 0 }], outcome: { kind: 'unknown' } })).rejects.toThrow('removal not recorded: unknown')
})
