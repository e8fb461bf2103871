import { setTimeout as pause } from 'node:timers/promises'
import type { Bus } from '@passover/bus'
import { findPass, isOpen, type PassRef, readResult, statusLabel } from '@passover/operator'
import type { AnsweredPass, TimelineEntry } from '@passover/schemas'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { INTERRUPTED } from '../errors.js'
import { statusColor } from '../render/pass-rows.js'
import { renderResult } from '../render/result.js'
import { entryText, KIND_WIDTH } from '../render/timeline.js'
import { clockTime } from '../terminal/duration.js'
import { stopSignals } from '../terminal/stop-signals.js'

const POLL_INTERVAL_MS = 500

/** Prints the timeline of a pass and its outcome. With `follow`, prints new entries until the pass ends or Ctrl-C is pressed (exit code 130). */
export async function runLogs(context: Context, ref: PassRef, follow: boolean): Promise<number> {
  const { terminal } = context
  await using bus = await connectPerson(context)
  using signals = stopSignals(() => {})
  const shown = new Set<number>()
  let pass = await findPass(bus, ref, { history: true })
  const whole = { id: pass.key.id, from: pass.key.originator, to: pass.key.subagent }
  for (;;) {
    if (terminal.mode !== 'json') for (const entry of pass.history ?? []) if (!shown.has(entry.sequence)) printEntry(context, entry, shown)
    if (!follow || !isOpen(pass.row)) break
    await pause(POLL_INTERVAL_MS, undefined, { signal: signals.signal }).catch(() => undefined)
    if (signals.signal.aborted) return INTERRUPTED
    pass = await findPass(bus, whole, { history: true })
  }
  await printEnd(context, bus, pass)
  return 0
}

function printEntry({ terminal }: Context, entry: TimelineEntry, shown: Set<number>): void {
  shown.add(entry.sequence)
  terminal.stream(entry, () => `${terminal.colors.dim(clockTime(entry.time))}  ${entry.kind.padEnd(KIND_WIDTH)} ${entryText(entry)}`)
}

async function printEnd({ terminal }: Context, bus: Bus, pass: AnsweredPass): Promise<void> {
  const { row, history = [] } = pass
  // Only an error is shown, so the parts of an output are not loaded.
  const result = isOpen(row) ? undefined : await readResult(bus, pass, () => false)
  const failed = result && 'error' in result ? result : undefined
  const error = failed && { error: failed.error }
  if (terminal.mode === 'json') return terminal.show({ id: row.id, status: row.status, timeline: history, ...error }, () => '')
  if (terminal.mode === 'jsonl') return terminal.stream({ id: row.id, status: row.status, ...error }, () => undefined)
  const { colors } = terminal
  const ended = `${colors.bold(row.id)}  ${statusColor(row, colors)(statusLabel(row))}`
  terminal.show(undefined, () => (failed ? `${ended}\n${renderResult(failed, { colors })}` : ended))
}
