import type { Archive } from '@passover/archive'
import type { Bus, StoredMessage } from '@passover/bus'
import { HEADER } from '@passover/schemas'
import { expect, test } from 'vitest'
import { control, first, KEY, message, RULES, subjects, T0 } from '../../testing/samples.js'
import { buildRecord } from '../records/build-record.js'
import { loadPass } from './load-pass.js'

const body = {
  v: 1,
  request: { id: KEY.id, originating_agent_id: 'alice', subagent_id: 'scout', reason: 'why' },
  session_id: 'session-1',
  parts: [],
}
const { stored: request } = message(7, 'request.scout.alice', { headers: { [HEADER.id]: KEY.id }, body })
const { stored: refusal } = message(8, subjects.return(KEY, 'passover'), {
  headers: { ...first(KEY), [HEADER.request]: '7', [HEADER.code]: 'E003' },
  body: { v: 1, error: { code: 'E003', message: 'a loop' } },
})

/** What is read of the pass, where stream and archive have so much of it, and which messages were asked for besides its history. */
async function readOf({ stream, archived = [] }: { stream: StoredMessage[]; archived?: StoredMessage[] }) {
  const asked: number[] = []
  const journal = {
    history: async () => stream,
    message: async (sequence: number) => {
      asked.push(sequence)
      return stream.find((one) => one.sequence === sequence)
    },
  }
  const archive = { sequencesOf: async () => archived.map(({ sequence }) => sequence), messages: async () => archived }
  const deps = { bus: { journal, subjects } as unknown as Bus, archive: archive as unknown as Archive, rules: RULES }
  const { memory } = await loadPass(deps, KEY, { up_to: 100 })
  return {
    session: buildRecord(memory, RULES).record.session_id,
    asked,
    ended: memory.journal.state === 'done' ? memory.journal.last : undefined,
  }
}

test('a pass that was refused is read with its request, which alone says whose session it was', async () => {
  expect(await readOf({ stream: [request, refusal] })).toEqual({ session: 'session-1', asked: [], ended: 8 })
})

// Found by `passover chaos` (seed 60): an audit that read between the two deletions wrote a second record, without a session.
test('and where that has left the stream already, from the archive', async () => {
  expect(await readOf({ stream: [refusal], archived: [request, refusal] })).toEqual({ session: 'session-1', asked: [7], ended: 8 })
})

// Found by `passover chaos` (seed 950216): the record had no return, since the "expired" was taken for the answer to a later request.
test('a pass whose work came too late ended with the refusal after it, also where both have left the stream', async () => {
  const requested = { [HEADER.request]: '7', [HEADER.requestedAt]: String(T0 - RULES.id_window_ms) }
  const { stored: late } = message(8, subjects.work(KEY, 'medium'), {
    headers: { ...first(KEY), ...requested },
    body: { v: 1, control: control(), parts: [] },
  })
  const expired = (sequence: number, guard: number) =>
    message(sequence, subjects.return(KEY, 'passover'), {
      headers: {
        ...first(KEY),
        ...requested,
        'Nats-Expected-Last-Subject-Sequence': String(guard),
        [HEADER.first]: '1',
        [HEADER.code]: 'E005',
      },
      body: { v: 1, error: { code: 'E005', message: 'expired' } },
    }).stored
  expect(await readOf({ stream: [request, late, expired(9, 8)] })).toMatchObject({ ended: 9 })
  expect(await readOf({ stream: [], archived: [request, late, expired(9, 8)] })).toMatchObject({ ended: 9 })
  // Nothing that answers a later request for a pass which had ended is its return.
  expect(await readOf({ stream: [expired(20, 0)], archived: [request, refusal] })).toMatchObject({ ended: 8 })
})
