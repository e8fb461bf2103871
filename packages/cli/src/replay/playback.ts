import type { AnsweredPass, TimelineEntry } from '@passover/schemas'
import { entryText, KIND_WIDTH } from '../render/timeline.js'
import { clockTime, duration } from '../terminal/duration.js'
import { oneLine } from '../terminal/text.js'

/** An entry of one of the passes that are played back together. */
export interface PlaybackEntry extends TimelineEntry {
  pass: string
  originator: string
  subagent: string
}

/** Returns all stored entries of the passes in stream order. */
export function playbackEntries(passes: readonly AnsweredPass[]): PlaybackEntry[] {
  return passes
    .flatMap(({ key, history = [] }) =>
      history.map((entry) => ({ ...entry, pass: key.id, originator: key.originator, subagent: key.subagent })),
    )
    .sort((a, b) => a.sequence - b.sequence)
}

const SHOWN_ID = 12

/** Formats one entry: time, time since the start, pass, and event. */
export function playbackLine(entry: PlaybackEntry, told: { begun: number; several: 'one pass' | 'several' }): string {
  const since = `+${duration(entry.time - told.begun)}`.padStart(10)
  const parties = `${entry.originator} → ${entry.subagent}`
  const which = told.several === 'several' ? `  ${oneLine(entry.pass).slice(-SHOWN_ID)} ${oneLine(parties)}` : ''
  const ignored = entry.ignored ? `  (ignored: ${oneLine(entry.ignored)})` : ''
  return `${clockTime(entry.time)} ${since}${which}  ${entry.kind.padEnd(KIND_WIDTH)} ${entryText(entry)}${ignored}`
}

export interface Pace {
  /** 1 for the original speed, 10 for ten times as fast; `undefined` for no pauses. */
  speed?: number | undefined
  /** Waits for a key before the next entry; false stops the playback. */
  step?: (() => Promise<boolean>) | undefined
  wait(ms: number): Promise<void>
}

/** Maximum pause between two entries in milliseconds, so that idle periods are skipped. */
const MAX_DELAY_MS = 5_000

/** Emits the entries one by one at the requested pace. */
export class Playback {
  readonly #pace: Pace
  readonly #say: (entry: PlaybackEntry) => void
  #before: PlaybackEntry | undefined

  constructor(pace: Pace, say: (entry: PlaybackEntry) => void) {
    this.#pace = pace
    this.#say = say
  }

  /** Plays more entries. Returns false if the playback was stopped. */
  async tell(entries: readonly PlaybackEntry[]): Promise<boolean> {
    const pace = this.#pace
    for (const entry of entries) {
      const before = this.#before
      if (before && pace.speed !== undefined) await pace.wait(Math.min(MAX_DELAY_MS, Math.max(0, entry.time - before.time) / pace.speed))
      if (before && pace.step && !(await pace.step())) return false
      this.#say(entry)
      this.#before = entry
    }
    return true
  }
}
