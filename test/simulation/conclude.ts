import type { Book } from './books.js'
import type { Checks, Told } from './checks.js'
import { OTHER_REASON, OWN_REASON, type PassPlan, type Plan } from './plan.js'
import type { Simulation } from './simulation.js'
import { EPOCH } from './world.js'

/** How much later than its due time something may end while nothing goes wrong. */
const BOUND_MS = 2_000
/** How long after the last fault of the dispatchers or the server all is as it should be: the longest that a step is tried is 15 s. */
const RECOVERY_MS = 20_000
/** What a caller may be told though the stream says otherwise, or nothing: its own trouble. */
const OWN = new Set(['E040', 'E041', 'E022'])

/** What must hold when nothing has gone wrong for a while. */
export function conclude({ checks, plan, world, troubled_until }: Simulation): void {
  const end: End = { checks, now: world.now, calm: EPOCH + troubled_until + RECOVERY_MS, timeouts: timeoutsOf(checks, plan) }
  for (const book of checks.books.values()) {
    judgeBegin(end, book)
    judgeEnd(end, book)
    judgeChild(end, book)
  }
  judgeBudgets(checks, plan)
  for (const told of checks.told) judgeTold(checks, told)
}

/** A run that is over. `calm`: server time at which what was wrong with dispatchers and server is made up for. */
interface End {
  checks: Checks
  now: number
  calm: number
  timeouts: Map<string, number>
}

/** How long each pass that was asked for may last. */
function timeoutsOf(checks: Checks, plan: Plan): Map<string, number> {
  const timeouts = new Map<string, number>()
  const know = (pass: PassPlan): void => {
    for (const key of checks.keysOf(pass.name)) timeouts.set(key, pass.timeout_ms)
    for (const child of pass.children) know(child)
  }
  for (const pass of plan.passes) know(pass)
  return timeouts
}

/** What is due while dispatchers and server are in trouble need not be in time; whatever happens to workers and callers is no excuse. */
function due(time: number, { calm }: End): number {
  return Math.max(time, calm) + BOUND_MS
}

/** A request that nobody admits in its time is answered then, and nothing begins later. */
function judgeBegin(end: End, book: Book): void {
  const [first] = book.requests
  const timeout_ms = end.timeouts.get(book.key)
  if (first === undefined || timeout_ms === undefined) return
  const none = book.state === 'none'
  const must = due(end.checks.timeOf(none ? first : (book.answers ?? 0)) + timeout_ms, end)
  if (none && end.now > must) end.checks.blame('P2', 'unanswered', `${book.key} was asked for and never begun`)
  // Whoever asks again under an id of its own may do so when its pass is long forgotten.
  if (!none && book.answers && book.begun_at > must)
    end.checks.blame('P2', 'begun_late', `${book.key} is begun ${book.begun_at - must} ms after it should have been refused`)
}

function judgeEnd(end: End, book: Book): void {
  if (book.state === 'none') return
  const ended = book.ended?.kept.time ?? Number.POSITIVE_INFINITY
  const late = (time: number) => ended > due(time, end) && end.now > due(time, end)
  if (late(book.deadline))
    end.checks.blame('P2', 'overdue', `${book.key} (${book.state}) is over at ${ended - book.deadline} ms after its deadline`)
  const { cancelled_at } = book
  if (cancelled_at !== undefined && late(Math.max(cancelled_at, book.begun_at)))
    end.checks.blame('P5', 'uncancelled', `${book.key} was cancelled and is ${book.state}`)
}

/** A child lives only while its parent is open in the attempt that its proof names. */
function judgeChild(end: End, book: Book): void {
  const parent = book.parent === undefined ? undefined : end.checks.books.get(book.parent)
  if (!parent || (book.work === 0 && !book.held)) return
  const lost = parent.fences.find(({ sequence }) => sequence > (book.proof ?? 0))?.time ?? parent.ended?.kept.time
  if (lost === undefined) return
  const must = due(Math.max(lost, book.begun_at), end)
  const outlives = (book.ended?.kept.time ?? Number.POSITIVE_INFINITY) > must && end.now > must
  if (outlives) end.checks.blame('P5', 'outlives', `${book.key} outlives ${parent.key}`)
}

/** A budget counts the passes below the one that has it. */
function judgeBudgets(checks: Checks, plan: Plan): void {
  for (const pass of plan.passes) {
    if (pass.budget === undefined) continue
    for (const key of checks.keysOf(pass.name)) {
      const below = [...checks.books.values()].filter((book) => book.work > 0 && book.key !== key && isBelow(checks, book, key))
      if (below.length > pass.budget) checks.blame('P5', 'over_budget', `${below.length} passes below ${key}, which has ${pass.budget}`)
    }
  }
}

function isBelow(checks: Checks, book: Book, key: string): boolean {
  for (let one: Book | undefined = book; one?.parent !== undefined; one = checks.books.get(one.parent)) if (one.parent === key) return true
  return false
}

function judgeTold(checks: Checks, told: Told): void {
  const { key, code, output, book } = told
  const ended = book?.ended
  const said = `${told.by} was told ${output ?? code} of ${told.name} (${key})`
  if (code !== undefined && OWN.has(code)) return
  // Another request under the same id, or one whose id has expired.
  if (code === 'E005') return
  if (!ended) {
    checks.blame('P2', 'told_unended', `${said}, which has not ended`)
    return
  }
  // What a dishonest worker returned is judged before it is delivered.
  if (ended.kept.by === 'evil' && (code === 'E021' || code === 'E013')) return
  const reason = told.same !== undefined && book && checks.reasonOf(book)
  if (typeof reason === 'string' && reason !== (told.same ? OWN_REASON : OTHER_REASON))
    checks.blame('P1', 'told_other', `${said}, which answers another request`)
  if (ended.by === 'passover' ? output !== undefined || code !== ended.code : output === undefined && code !== ended.code)
    checks.blame('P2', 'told_wrong', `${said}; its return says ${ended.code ?? 'an output'}`)
  const [, attempt] = /attempt (\d+)/.exec(output ?? '') ?? []
  if (attempt !== undefined && Number(attempt) !== ended.attempt)
    checks.blame('P1', 'told_attempt', `${said}; attempt ${ended.attempt} returned`)
}
