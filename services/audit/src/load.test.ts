import type { Archive } from '@passover/archive'
import type { Bus, Stored } from '@passover/bus'
import { HEADER } from '@passover/schemas'
import { expect, test } from 'vitest'
import { first, KEY, message, RULES, subjects } from '../testing/samples.js'
import { describe } from './describe.js'
import { loadPass } from './load.js'

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
async function readOf({ stream, archived = [] }: { stream: Stored[]; archived?: Stored[] }) {
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
  return { session: describe(memory, RULES).record.session_id, asked }
}

test('a pass that was refused is read with its request, which alone says whose session it was', async () => {
  expect(await readOf({ stream: [request, refusal] })).toEqual({ session: 'session-1', asked: [] })
})

// Found by `passover chaos` (decision 119): read between the two deletions it became a second record, of no session.
test('and where that has left the stream already, from the archive', async () => {
  expect(await readOf({ stream: [refusal], archived: [request, refusal] })).toEqual({ session: 'session-1', asked: [7] })
})
