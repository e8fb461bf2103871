import { TimeLimits } from './time-limits.js'
import type { CheckerOptions, Judgement, PassFound, Trouble, Violation } from './types.js'
import type { Checked } from './verdict.js'

/** A line from a worker's log about a run of a handler: it began, its signal was aborted, or it ended. */
interface RunLine {
  key: string
  attempt: number
  worker: string
  what: 'began' | 'stopped' | 'over'
  /** Time in milliseconds by this machine's clock, which the servers use as well. */
  at: number
}

export interface ProcessLocations {
  /** Times in milliseconds at which each worker was frozen. */
  frozen: Readonly<Record<string, readonly Trouble[]>>
  /** Times in milliseconds at which each worker was killed. */
  killed: Readonly<Record<string, readonly number[]>>
  /** Current time in milliseconds. */
  now: number
}

const CASCADE_BOUND_MS = 2_000

/** Parses lines `<originator>/<subagent>/<id> <attempt> <what> <ms> <worker>`. A line truncated by a kill is skipped. */
export function runLines(text: string): RunLine[] {
  return text
    .split('\n')
    .slice(0, -1)
    .flatMap((line) => {
      const [key = '', attempt, what, at, ...worker] = line.split(' ')
      return worker.length === 0
        ? []
        : [{ key, attempt: Number(attempt), worker: worker.join(' '), what: what as RunLine['what'], at: Number(at) }]
    })
}

/**
 * Checks P5 for handlers: if a pass is cancelled, times out or loses its parent, the signal of its handler is aborted in time, unless the handler has
 * ended or its process has died before.
 */
export function checkHandlers(
  lines: readonly RunLine[],
  where: ProcessLocations,
  judged: { judgement: Judgement; options: CheckerOptions },
): Checked {
  const { judgement, options } = judged
  const violations: Violation[] = []
  const counts = { 'handlers to be stopped': 0, 'died with their process': 0, 'later than 2 s': 0, 'slowest to stop, ms': 0 }
  for (const { began, end } of runsOf(lines).values()) {
    const { key, attempt, worker } = began
    const found = judgement.passes.get(key)
    const cause = found && causeOf(found, judgement.passes)
    if (cause === undefined || (end !== undefined && end < cause)) continue
    const from = Math.max(cause, began.at)
    const troubles = [...(options.troubles ?? []), ...(where.frozen[worker] ?? [])]
    const killed = where.killed[worker]?.find((at) => at >= began.at)
    const at = end ?? killed ?? where.now
    counts['handlers to be stopped'] += 1
    if (end === undefined && killed !== undefined) counts['died with their process'] += 1
    else counts['slowest to stop, ms'] = Math.max(counts['slowest to stop, ms'], at - from)
    // Counts violations of the bound for an otherwise idle machine, regardless of the configured slack.
    if (at > new TimeLimits({ ...options, troubles, cascade_ms: CASCADE_BOUND_MS }).ofCascade(from)) counts['later than 2 s'] += 1
    if (at <= new TimeLimits({ ...options, troubles }).ofCascade(from)) continue
    violations.push({ promise: 'P5', what: `${key}: attempt ${attempt} in ${worker} went on for ${at - cause} ms after it was to stop` })
  }
  return { counts: { P5: counts }, violations }
}

function runsOf(lines: readonly RunLine[]): Map<string, { began: RunLine; end?: number }> {
  const runs = new Map<string, { began: RunLine; end?: number }>()
  for (const line of lines) {
    const name = `${line.key} ${line.attempt} ${line.worker}`
    const run = runs.get(name)
    if (line.what === 'began') runs.set(name, { began: line })
    else if (run) run.end = Math.min(run.end ?? line.at, line.at)
  }
  return runs
}

/** Returns the time at which work on a pass had to stop, or `undefined` if it was ended by a worker's return or did not end. */
function causeOf(found: PassFound, passes: Judgement['passes']): number | undefined {
  const { ended, parent } = found
  // An attempt superseded by another one is stopped by its lease (docs/architecture/worker.md#while-it-runs).
  if (ended?.by !== 'passover') return undefined
  const above = parent && passes.get(parent.key)
  const lost = above?.fences.find(({ sequence }) => sequence > (parent?.proof ?? 0))?.time ?? above?.ended?.time
  return lost !== undefined && lost < ended.time ? lost : ended.time
}
