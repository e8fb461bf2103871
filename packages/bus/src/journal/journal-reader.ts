import type { PassKey, Step } from '@passover/schemas'
import { EVENT_KINDS, type EventKind, HEADER, PRIORITIES, SYSTEM } from '@passover/schemas'
import type { Timing } from '../clock/timing.js'
import { API_ERROR, type ApiReply } from '../messaging/jetstream-api.js'
import type { Subjects } from '../subjects/subjects.js'
import { BusReadError, JournalTooLong } from '../types/errors.js'
import type { Cut } from '../types/journal.js'
import { headersFromBase64 } from '../wire/headers.js'
import type { StoredMessage } from '../wire/messages.js'

/** API calls that reading requires. */
export interface JournalApi {
  call<T>(call: string, body?: unknown, timeout_ms?: number): Promise<ApiReply<T>>
  direct(stream: string, subject: string, timeout_ms?: number): Promise<StoredMessage | undefined>
}

/** Monotonic time at which a read must end, and a signal that may end it earlier. */
export interface Until {
  deadline: number
  timing: Timing
  signal?: AbortSignal | undefined
}

interface MsgGetAnswer {
  message: { subject: string; seq: number; hdrs?: string; data?: string; time: string }
}

/** Range of a read by filter: at most `max` messages, and none after the one that reaches `max_bytes`. */
interface Range {
  from: number
  max: number
  max_bytes: number
  until?: Until | undefined
}

/** Result of a read. `cut` is true if there was more. */
interface Found<T> {
  found: T[]
  cut: boolean
}

/**
 * Limits of a journal: more steps than a correct pass has, since it has few attempts. A faulty or hostile worker can store fences and returns without
 * end.
 */
const STEPS = { max: 64, max_bytes: 8 * 1024 * 1024 }
/** Limits for a pass's events of all kinds; most passes have few or none. */
const EVENTS = { max: 64, max_bytes: 512 * 1024 }
/** Further limits per kind of event beyond these: for kinds that agents publish, and for kinds that only the system and people publish. */
const AGENTS_EVENTS = { max: 32, max_bytes: 256 * 1024 }
const OTHER_EVENTS = { max: 1_000, max_bytes: 8 * 1024 * 1024 }
const OF_AGENTS: ReadonlySet<EventKind> = new Set(['cancel', 'applied', 'started', 'late'])
const EMPTY = new Uint8Array(0)
/** Milliseconds until a read is retried. A request to a stream without a leader is never answered, even after it has a leader again. */
const READ_MS = 2_000

/** Reads journals and everything else stored about a pass. */
export class JournalReader {
  readonly #api: JournalApi
  readonly #subjects: Subjects

  constructor(api: JournalApi, subjects: Subjects) {
    this.#api = api
    this.#subjects = subjects
  }

  async read(key: PassKey, from: number, until?: Until): Promise<Step[]> {
    const read = await this.#stepsOf(key, from, until)
    const steps = this.#steps(read.found)
    if (read.cut) throw new JournalTooLong(key, steps)
    return steps
  }

  async glimpse(key: PassKey, until?: Until): Promise<Step[]> {
    const { stream } = this.#subjects
    const found = await Promise.all(this.#exact(key).map((subject) => this.#api.direct(stream, subject, timeLeft(until))))
    return this.#steps(inOrder(found))
  }

  last(subject: string): Promise<StoredMessage | undefined> {
    return this.#api.direct(this.#subjects.stream, subject)
  }

  first(filter: string, from: number): Promise<StoredMessage | undefined> {
    return this.#get({ seq: Math.max(1, from), next_by_subj: filter })
  }

  newest(filter: string): Promise<StoredMessage | undefined> {
    return this.#get({ last_by_subj: filter })
  }

  message(sequence: number): Promise<StoredMessage | undefined> {
    return this.#get({ seq: sequence })
  }

  async history(key: PassKey, from: number, onCut?: (what: Cut) => void): Promise<StoredMessage[]> {
    const decisions = this.#all(this.#subjects.decisions(key), { from, ...OTHER_EVENTS })
    const [steps, decided, events] = await Promise.all([this.#stepsOf(key, from), decisions, this.#events(key, from)])
    if (steps.cut) onCut?.('steps')
    if (decided.cut || events.cut) onCut?.('events')
    if (events.progress) onCut?.('progress')
    const found = [...steps.found, ...decided.found, ...events.found]
    const named = found
      .filter((stored) => this.#subjects.isTrusted(stored))
      .map((stored) => Number(stored.headers.get(HEADER.request)))
      .find((sequence) => Number.isSafeInteger(sequence) && sequence > 0)
    const request = named === undefined ? undefined : await this.message(named)
    if (request && this.#subjects.parseTrusted(request).kind === 'request') found.push(request)
    return found.sort((a, b) => a.sequence - b.sequence)
  }

  /** Reads the first steps of a journal; if there are too many, also the last step of every possible subject. */
  async #stepsOf(key: PassKey, from: number, until?: Until): Promise<Found<StoredMessage>> {
    const all = await this.#all(this.#subjects.journal(key), { from, ...STEPS, until })
    if (!all.cut) return all
    const known = new Set(all.found.map((stored) => stored.sequence))
    const lasts = await Promise.all(this.#exact(key).map((subject) => this.#get({ last_by_subj: subject }, until)))
    const more = lasts.filter((stored) => stored !== undefined && stored.sequence >= from && !known.has(stored.sequence))
    return { found: inOrder([...all.found, ...more]), cut: true }
  }

  /** Returns every subject that a correct journal can contain. */
  #exact(key: PassKey): string[] {
    const s = this.#subjects
    const works = PRIORITIES.map((priority) => s.work(key, priority))
    return [s.held(key), ...works, s.fence(key, key.subagent), s.return(key, key.subagent), s.return(key, SYSTEM)]
  }

  #steps(stored: StoredMessage[]): Step[] {
    return stored.map((one) => this.#subjects.toFact(one)).filter((fact) => fact.type === 'step')
  }

  /**
   * Reads events with a limit per kind, since an agent may publish any number of events, each as large as a message. Above the first limit progress
   * reports are left out.
   */
  async #events(key: PassKey, from: number): Promise<Found<StoredMessage> & { progress?: boolean }> {
    const { found, cut } = await this.#all(this.#subjects.events(key), { from, ...EVENTS })
    const next = found.at(-1)
    if (!cut || !next) return { found, cut }
    const range = { from: next.sequence + 1 }
    const kinds = EVENT_KINDS.filter((kind) => kind !== 'progress')
    const more = await Promise.all(
      kinds.map((kind) =>
        this.#all(this.#subjects.eventsOf(key, kind), { ...range, ...(OF_AGENTS.has(kind) ? AGENTS_EVENTS : OTHER_EVENTS) }),
      ),
    )
    const progress = await this.newest(this.#subjects.eventsOf(key, 'progress'))
    return {
      found: [...found, ...more.flatMap((one) => one.found)],
      cut: more.some((one) => one.cut),
      progress: (progress?.sequence ?? 0) > next.sequence,
    }
  }

  /**
   * Reads all messages that match a filter. Reads the last match first, so that no search continues past it or runs without a match: such a wildcard
   * search blocks the stream for 20 ms at 200,000 messages, any other for 0.3 ms.
   */
  async #all(filter: string, { from, max, max_bytes, until }: Range): Promise<Found<StoredMessage>> {
    const start = Math.max(1, from)
    const found: StoredMessage[] = []
    let bytes = 0
    const last = await this.#get({ last_by_subj: filter }, until)
    for (let next = start; last && next <= last.sequence; ) {
      if (found.length >= max || bytes >= max_bytes) return { found, cut: true }
      const stored = next === last.sequence ? last : await this.#get({ seq: next, next_by_subj: filter }, until)
      if (!stored) break
      found.push(stored)
      bytes += stored.data.length
      next = stored.sequence + 1
    }
    return { found, cut: false }
  }

  async #get(query: { seq: number; next_by_subj?: string } | { last_by_subj: string }, until?: Until): Promise<StoredMessage | undefined> {
    if (until && isOver(until)) throw new BusReadError(`read of ${this.#subjects.stream}: no time left`, 'timeout')
    const reply = await this.#api.call<MsgGetAnswer>(`STREAM.MSG.GET.${this.#subjects.stream}`, query, timeLeft(until))
    if (!reply.ok) {
      if (reply.err_code === API_ERROR.messageNotFound) return undefined
      throw new BusReadError(`read of ${this.#subjects.stream}: ${reply.description} (${reply.err_code})`, 'refused_by_server')
    }
    const { subject, seq, hdrs, data, time } = reply.value.message
    const body = data ? Buffer.from(data, 'base64') : EMPTY
    return { subject, sequence: seq, time: Date.parse(time), headers: headersFromBase64(hdrs), data: body }
  }
}

export function isOver({ deadline, signal, timing }: Until): boolean {
  return timing.monotonic() >= deadline || signal?.aborted === true
}

function timeLeft(until: Until | undefined): number | undefined {
  return until && Math.min(READ_MS, Math.max(1, until.deadline - until.timing.monotonic()))
}

function inOrder(found: (StoredMessage | undefined)[]): StoredMessage[] {
  return found.filter((stored) => stored !== undefined).sort((a, b) => a.sequence - b.sequence)
}
