import { decode } from '@passover/bus'
import { expect, it } from 'vitest'
import { Telling } from './telling.js'

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
  const telling = new Telling({
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
  return { is: await telling.isBegun(), said }
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

it('is not begun where another was faster, and not known where nobody answers', async () => {
  expect((await begun({ segments: [{ k: 0 }], outcome: { kind: 'lost' } })).is).toBe(false)
  await expect(begun({ segments: [{ k: 0 }], outcome: { kind: 'unknown' } })).rejects.toThrow('not told: unknown')
})
