import { TimeLimits } from './time-limits.js'
import type { CheckerOptions, Judgement, Violation } from './types.js'
import type { Checked } from './verdict.js'

/** A line of an originator's log as the checker reads it. */
export interface HistoryLine {
  t: string
  id: string
  to?: string
  at: number
  outcome?: string
  attempt?: number
  timeout_ms?: number
}

/** Parses the lines of a log. A line truncated by a kill is skipped. */
export function historyLines(text: string): HistoryLine[] {
  return text.split('\n').flatMap((line) => {
    try {
      return line === '' ? [] : [JSON.parse(line) as HistoryLine]
    } catch {
      return []
    }
  })
}

/** Codes that do not report the outcome of a pass: with E040 the originator could not reach the server, or the SDK stopped waiting. */
const UNINFORMATIVE_CODES = new Set(['E040'])

/** Compares the results that an originator received with the stream: P1 (repeated requests) and P2 (one return, nothing accepted is lost). */
export function checkHistory(originator: string, lines: readonly HistoryLine[], { passes }: Judgement): Checked {
  const violations: Violation[] = []
  const asked = new Map<string, string>()
  const told = new Map<string, HistoryLine[]>()
  let stored = 0
  for (const line of lines) if (line.t === 'asked' && line.to) asked.set(line.id, `${originator}/${line.to}/${line.id}`)
  for (const line of lines) {
    const key = asked.get(line.id) ?? ''
    const found = passes.get(key)
    if (line.t === 'stored') {
      stored += 1
      if (!found || (found.requests.length === 0 && found.begun === undefined))
        violations.push({ promise: 'P2', what: `${key}: its request was stored, and the stream has nothing of it` })
    }
    if (line.t !== 'told' || UNINFORMATIVE_CODES.has(line.outcome ?? '')) continue
    // E041 "there is no such pass" is correct for a request whose originator was killed before it could send it.
    if (line.outcome === 'E041' && !found) continue
    told.set(line.id, [...(told.get(line.id) ?? []), line])
    const ended = found?.ended
    const code = ended?.code ?? 'ok'
    if (!ended) violations.push({ promise: 'P2', what: `${key}: its originator was told ${line.outcome}, the stream has no return` })
    else if (code !== line.outcome)
      violations.push({ promise: 'P2', what: `${key}: its originator was told ${line.outcome}, the stream says ${code}` })
    else if (line.attempt !== undefined && line.attempt !== ended.attempt)
      violations.push({ promise: 'P1', what: `${key}: told of attempt ${line.attempt}, the return is of ${ended.attempt}` })
  }
  for (const [id, several] of told) {
    if (new Set(several.map(({ outcome, attempt }) => `${outcome} ${attempt ?? ''}`)).size > 1)
      violations.push({ promise: 'P1', what: `${asked.get(id)}: asked again, told something else` })
  }
  const again = [...told.values()].filter((several) => several.length > 1).length
  return {
    counts: {
      P1: { [`asked again (${originator})`]: again },
      P2: { [`stored (${originator})`]: stored, [`told (${originator})`]: told.size },
    },
    violations,
  }
}

/** Checks P1 for runs of handlers, `<originator>/<subagent>/<id> <attempt>`: at most one for each attempt, and none without a work step. */
export function checkStarted(lines: readonly string[], { passes }: Judgement): Checked {
  const violations: Violation[] = []
  const times = new Map<string, number>()
  for (const line of lines) times.set(line, (times.get(line) ?? 0) + 1)
  for (const [line, count] of times) {
    const [key = '', attempt] = line.split(' ')
    const found = passes.get(key)
    if (count > 1) violations.push({ promise: 'P1', what: `attempt ${line} began ${count} times` })
    if (!found || found.works === 0) violations.push({ promise: 'P1', what: `attempt ${line} began without work` })
    else if (Number(attempt) > found.attempts)
      violations.push({ promise: 'P1', what: `attempt ${line} began, the stream knows ${found.attempts}` })
  }
  return { counts: { P1: { 'runs of handlers': lines.length } }, violations }
}

const IDLE_BOUND_MS = 1_000

/** Reports what `judge` found for P1 and P2 in the stream, and how much it checked. */
export function checkTotals({ totals, passes, violations }: Judgement, options: CheckerOptions): Checked {
  const begun = [...passes.values()].filter((found) => found.begun !== undefined)
  const unended = begun.filter(({ returns }) => returns === 0)
  // Counts violations of the bound for an otherwise idle machine, regardless of the configured slack.
  const strict = new TimeLimits({ ...options, bound_ms: IDLE_BOUND_MS })
  const late = begun.flatMap(({ ended, deadline = Number.POSITIVE_INFINITY }) =>
    Math.max(0, (ended?.time ?? 0) - strict.ofDeadline(deadline)),
  )
  return {
    counts: {
      P1: {
        passes: totals.passes,
        requests: totals.requests,
        'asked for more than once': begun.filter(({ requests }) => requests.length > 1).length,
        dispatched: begun.filter(({ works }) => works > 0).length,
        'later attempts': totals.fences,
      },
      P2: {
        passes: totals.passes,
        returned: totals.ended,
        'still open': unended.length,
        'later than the bound of 1 s': late.filter((ms) => ms > 0).length,
        'latest beyond it, ms': Math.max(0, ...late),
      },
      P5: { children: begun.filter(({ parent }) => parent).length },
    },
    violations,
  }
}
