import { indexAnswer } from '@passover/schemas'
import { type Ask, type Seen, wrongAnswers } from '../../support/assertions/answers-check.js'
import type { Simulation } from '../simulation.js'
import { Process } from '../world.js'
import { type Book, isHalf } from './pass-book.js'
import { codeOf, type Recorded, recordsIn, statusesOf } from './record-reading.js'

/** Longer than all questions of a run take. */
const MOST_MS = 60_000
/** Comparing the index waits for what is under way. */
const ASK_MS = 10_000

/**
 * Asks the audit when all is over: what every filter finds and every statistic counts must be what the stream says of the passes that ended before
 * `until`. It runs after everything else is judged, so that it changes no history.
 */
export async function judgeAnswers(simulation: Simulation, until: number): Promise<void> {
  const { world, checks, server } = simulation
  const records = recordsIn(server)
  const seen = [...checks.books.values()].flatMap((book) => seenOf(simulation, { book, record: records.get(book.key), until }))
  if (seen.length === 0) return
  const process = new Process(world, 'reader', { skew: 0, start: 1 })
  const bus = await connected(simulation, process)
  const wait = (ms: number) => new Promise<void>((done) => process.after(ms, done))
  let wrong: string[] | undefined
  const ask = (question: Record<string, unknown>) => bus.ask(question, { timeout_ms: ASK_MS })
  const all = async () => [...(await wrongAnswers(ask, seen, wait)), ...(await wrongIndex(ask))]
  void all().then(
    (found) => {
      wrong = found
    },
    (error: unknown) => {
      wrong = [String(error)]
    },
  )
  const end = world.time + MOST_MS
  while (wrong === undefined && world.time < end) await world.run(world.time + 200)
  for (const text of wrong ?? ['the audit does not answer']) checks.blame('P4', 'answers', text)
}

/** What the audit itself finds when it compares its index with the records. */
async function wrongIndex(ask: Ask): Promise<string[]> {
  const answer = indexAnswer.parse(await ask({ op: 'index' }))
  if (!answer.ok) return [`the index was not compared: ${answer.error.message}`]
  if (!answer.complete) return ['the index is not complete']
  return answer.shown.map(({ pass, what }) => `the index has of ${pass}: ${what}`)
}

async function connected(simulation: Simulation, process: Process) {
  const opening = simulation.connect(process, 'passover')
  await simulation.world.run(simulation.world.time + 1_000)
  return await opening
}

function seenOf(
  { checks, plan }: Simulation,
  { book, record, until }: { book: Book; record: Recorded | undefined; until: number },
): Seen[] {
  const { ended, originator, subagent, id } = book
  // A record that is missing or wrong is a finding of its own.
  if (!ended || ended.kept.time > until || !record || record.sequences.return !== ended.kept.sequence) return []
  const unread = ended.kept.by === 'evil' || isHalf(book)
  // Also after its id expired: the record of that refusal has no session either.
  const unread_request = checks.isUnread(book)
  // Deleted without an archive, its request can say nothing any more.
  const objective = plan.deletes || unread_request ? '' : (checks.nameOf(book.key) ?? '')
  const answered = book.answers !== undefined && book.answers > 0 && checks.messagesOf(book.key).length > 0
  if (!answered || plan.evil.length > 0) return []
  return [
    {
      originator,
      subagent,
      id,
      statuses: statusesOf(book),
      code: unread ? 'any' : codeOf(book, record),
      session: unread_request ? 'any' : 'session',
      ended_at: ended.kept.time,
      returned: ended.kept.sequence,
      objective,
    },
  ]
}
