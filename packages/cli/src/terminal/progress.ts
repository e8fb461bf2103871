import { once } from 'node:events'
import type { Progress } from './terminal.js'
import { count } from './text.js'

const REPORT_INTERVAL_MS = 1_000

/** Reports the number of entries read so far, about once a second. */
export function reportEverySecond(progress: Progress, done: string): (events: number) => void {
  const began = performance.now()
  let said = began
  return (events) => {
    const now = performance.now()
    if (now - said < REPORT_INTERVAL_MS) return
    said = now
    progress.say(`${count(events, 'entry', 'entries')} ${done}, ${Math.round((events / (now - began)) * 1_000)} per second`)
  }
}

/** Waits until stdout has drained, because a slow reader would let the output fill the memory. */
export async function stdoutDrained(): Promise<void> {
  if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain')
}
