import type { Book } from './books.js'
import type { Checks, Told } from './checks.js'
import { OTHER_REASON, OWN_REASON, type Plan } from './plan.js'
import type { World } from './world.js'

/** How much later than its due time something may end while nothing goes wrong. */
const BOUND_MS = 2_000
/** How long after the last fault all is as it should be: the longest that a step is tried is 15 s. */
const RECOVERY_MS = 20_000
/** What a caller may be told though the stream says otherwise, or nothing: its own trouble. */
const OWN = new Set(['E040', 'E041', 'E022'])

/** What must hold when nothing has gone wrong for a while. */
export function conclude(checks: Checks, world: World, plan: Plan): void {
  for (const book of checks.books.values()) {
    judgeEnd(checks, world, { book, plan })
    judgeChild(checks, plan, book)
  }
  judgeBudgets(checks, plan)
  for (const told of checks.told) judgeTold(checks, told)
}

/** Nothing that lasts into the trouble has to end in time; what is due after it has. */
function due(time: number, plan: Plan): number {
  const quiet = plan.faults.length === 0 && plan.evil.length === 0 && !plan.passes.some(kills)
  return quiet ? time + BOUND_MS : Math.max(time, epoch(plan.calm_at) + RECOVERY_MS) + BOUND_MS
}

function kills(pass: Plan['passes'][number]): boolean {
  return pass.does === 'kills' || pass.children.some(kills)
}

function judgeEnd(checks: Checks, world: World, { book, plan }: { book: Book; plan: Plan }): void {
  if (book.requests.length === 0 && book.state === 'none') return
  const end = book.ended?.kept.time ?? Number.POSITIVE_INFINITY
  const late = (time: number) => end > due(time, plan) && world.now > due(time, plan)
  if (book.state === 'none') {
    const asked = checks.timeOf(book.requests[0] ?? 0)
    if (world.now > due(asked + 6_000, plan)) checks.blame('P2', 'unanswered', `${book.key} was asked for and never begun`)
    return
  }
  if (late(book.deadline))
    checks.blame('P2', 'overdue', `${book.key} (${book.state}) is over at ${end - book.deadline} ms after its deadline`)
  const { cancelled_at } = book
  if (cancelled_at !== undefined && late(Math.max(cancelled_at, book.begun_at)))
    checks.blame('P5', 'uncancelled', `${book.key} was cancelled and is ${book.state}`)
}

/** A child lives only while its parent is open in the attempt that its proof names. */
function judgeChild(checks: Checks, plan: Plan, book: Book): void {
  const parent = book.parent === undefined ? undefined : checks.books.get(book.parent)
  if (!parent || (book.work === 0 && !book.held)) return
  const lost = parent.fences.find(({ sequence }) => sequence > (book.proof ?? 0))?.time ?? parent.ended?.kept.time
  if (lost === undefined) return
  const must = due(Math.max(lost, book.begun_at), plan)
  if ((book.ended?.kept.time ?? Number.POSITIVE_INFINITY) > must) checks.blame('P5', 'outlives', `${book.key} outlives ${parent.key}`)
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

function epoch(ms: number): number {
  return 1_750_000_000_000 + ms
}
