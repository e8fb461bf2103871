import { SEGMENT_SIZE } from '@passover/archive'
import type { Bus } from '@passover/bus'
import { type DeadLetterAnswer, type PassAnswer, SYSTEM } from '@passover/schemas'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { KEY, message, RULES, requestOf, returnOf, subjects, T0, workOf } from '../../testing/samples.js'
import { sealed } from '../../testing/sealed.js'
import { PassLists, type PassListsDeps } from './pass-lists.js'
import { type AnswerDeps, serveQuestions } from './query-router.js'

const OLD = [requestOf(1), workOf(2), returnOf(3)]

/** Asks about a pass that has left the stream, with its record gone: only the archive knows it. */
async function questions(archive: ReturnType<typeof sealed>) {
  let ask: (asker: string, asked: unknown) => Promise<unknown> = async () => undefined
  const bus = {
    subjects,
    now: () => T0,
    bounds: async () => ({ first: 1, last: 10 * SEGMENT_SIZE }),
    journal: { history: async () => [], message: async () => undefined },
    answer: async (handler: typeof ask) => {
      ask = handler
    },
  } as unknown as Bus
  const memory = { listing: { passes: { withId: () => [] } }, index: { agents: () => [], has: () => false }, indexing: { complete: true } }
  const lists = new PassLists({ ...memory, archive, table: { entries: async function* () {} } } as unknown as PassListsDeps)
  const nothing = { requestOf: () => undefined, beginOf: () => undefined, custody: { custody: { erasureOf: () => undefined } } }
  const dead = { caughtUp: Promise.resolve(), keys: () => [], advised: () => [], settlement: () => undefined, settledSequence: () => 0 }
  const deps = { bus, archive, lists, dead, rules: RULES, seesAll: () => true, acknowledged: { has: () => false }, ...nothing }
  await serveQuestions(bus, { ...deps, log: pino({ level: 'silent' }) } as unknown as AnswerDeps)
  return async (asked: object) => {
    const answer = (await ask('maria', asked)) as PassAnswer | DeadLetterAnswer
    if (!answer.ok) return answer.error
    return 'passes' in answer ? answer.passes.map(({ status }) => status) : 'found'
  }
}

const UNREAD = {
  code: 'E040',
  message: 'Not known yet: old parts of the archive are still being loaded: the indexes of 0 of 3 segments are read. Try again in a moment',
}

it.each([{ id: KEY.id }, KEY])('answers %o of an old pass with E040 until all indexes of the archive are read', async (asked) => {
  // A message that was stored long after the pass: alone, it looks like a pass that nobody began.
  const late = message(2 * SEGMENT_SIZE + 1, subjects.event(KEY, 'cancel', KEY.originator))
  const archive = sealed(2, [...OLD, late])
  const ask = await questions(archive)
  expect(await ask({ op: 'pass', ...asked })).toMatchObject(UNREAD)
  await archive.finder.prepare()
  expect(await ask({ op: 'pass', ...asked })).toEqual(['returned'])
})

it('does not answer that an old dead letter, or any pass, does not exist until all indexes of the archive are read', async () => {
  const letter = { v: 1, what: 'work', sequence: 2, error: { code: 'E011', message: 'lost' } }
  const archive = sealed(2, [...OLD, message(4, subjects.event(KEY, 'dead_letter', SYSTEM), { body: letter })])
  const ask = await questions(archive)
  const asked = [
    { op: 'dead_letter', id: KEY.id },
    { op: 'dead_letter', id: 'given-id-2' },
    { op: 'pass', id: 'given-id-2' },
  ]
  for (const one of asked) expect(await ask(one)).toMatchObject(UNREAD)
  await archive.finder.prepare()
  expect(await Promise.all(asked.map(ask))).toMatchObject(['found', { code: 'E041' }, { code: 'E041' }])
})
