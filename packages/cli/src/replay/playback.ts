import type { AnsweredPass, TimelineEntry } from '@passover/schemas'
import { entryText, KIND_WIDTH } from '../render/timeline.js'
import { clockTime, duration } from '../terminal/duration.js'
import { oneLine } from '../terminal/text.js'

/** An entry of one of the passes that are told together. */
export interface PlaybackEntry extends TimelineEntry {
  pass: string
  originator: string
  subagent: string
}

/** Everything stored of these passes, in the order in which it was. */
export function playbackEntries(passes: readonly AnsweredPass[]): PlaybackEntry[] {
  return passes
    .flatMap(({ key, history = [] }) =>
      history.map((entry) => ({ ...entry, pass: key.id, originator: key.originator, subagent: key.subagent })),
    )
    .sort((a, b) => a.sequence - b.sequence)
}

const SHOWN_ID = 12

/** One line: when, how long after the beginning, of which pass, and what. */
export function playbackLine(entry: PlaybackEntry, told: { begun: number; several: 'one pass' | 'several' }): string {
  const since = `+${duration(entry.time - told.begun)}`.padStart(10)
  const parties = `${entry.originator} → ${entry.subagent}`
  const which = told.several === 'several' ? `  ${oneLine(entry.pass).slice(-SHOWN_ID)} ${oneLine(parties)}` : ''
  const ignored = entry.ignored ? `  (ignored: ${oneLine(entry.ignored)})` : ''
  return `${clockTime(entry.time)} ${since}${which}  ${entry.kind.padEnd(KIND_WIDTH)} ${entryText(entry)}${ignored}`
}

export interface Pace {
  /** 1: as it was; 10: ten times as fast; undefined: at once. */
  speed?: number | undefined
  /** Waits until the next is asked for; false: enough. */
  step?: (() => Promise<boolean>) | undefined
  wait(ms: number): Promise<void>
}

/** What lies further apart is shown as if it did not: a night in which nothing happened is no news. */
const MAX_DELAY_MS = 5_000

/** Hands out entry by entry, at the pace that was asked for. */
export class Playback {
  private before: PlaybackEntry | undefined

  constructor(
    private readonly pace: Pace,
    private readonly say: (entry: PlaybackEntry) => void,
  ) {}

  /** More of them. False: enough. */
  async tell(entries: readonly PlaybackEntry[]): Promise<boolean> {
    const { pace } = this
    for (const entry of entries) {
      const { before } = this
      if (before && pace.speed !== undefined) await pace.wait(Math.min(MAX_DELAY_MS, Math.max(0, entry.time - before.time) / pace.speed))
      if (before && pace.step && !(await pace.step())) return false
      this.say(entry)
      this.before = entry
    }
    return true
  }
}
