import type { Clock } from '@passover/core'
import { keyText, type PassKey } from '@passover/schemas'
import type { Logger } from 'pino'
import { MAX_TRIES, mayPass } from './failures.js'
import { type LoadDeps, type Loaded, loadPass } from './load.js'

const CONCURRENCY = 16
const MAX_WAITING = 2048
const RETRY_MS = 500

export interface ReloadDeps extends LoadDeps {
  clock: Clock
  log: Logger
  /** Sequence of the last message that the reader took: a pass is read up to there, so that nothing in between can be missed. */
  position: () => number
  /** Whether a pass of this key has a record that is more than such a refusal. */
  hasRecord: (key: PassKey) => Promise<boolean>
  /** What to do with what was read; it is not wanted any more once this settles. False: the process ends. */
  onLoaded: (loaded: Loaded) => Promise<boolean>
}

interface Wanted {
  key: PassKey
  /** Lowest sequence that made it wanted. */
  since: number
  request: number | undefined
  /** Nothing was heard of it but that a request for it came too late. */
  expired: boolean
}

/**
 * Reads passes from the stream again about which something new was heard that are not in memory: after a restart, long after their end,
 * or without a beginning that can be trusted. Each pass at most once at a time, however much is heard of it.
 */
export class Reloads {
  private readonly waiting = new Map<string, Wanted>()
  private readonly running = new Map<string, Wanted>()
  private waiters: (() => void)[] = []
  private stopped = false

  constructor(private readonly deps: ReloadDeps) {}

  /** Lowest sequence whose pass is still to be read. */
  get lowest(): number | undefined {
    let lowest: number | undefined
    for (const { since } of [...this.waiting.values(), ...this.running.values()]) lowest = Math.min(lowest ?? since, since)
    return lowest
  }

  get size(): number {
    return this.waiting.size + this.running.size
  }

  want(key: PassKey, sequence: number, { request, expired = false }: { request?: number; expired?: boolean } = {}): void {
    const text = keyText(key)
    const known = this.waiting.get(text)
    if (known) {
      known.request ??= request
      known.expired &&= expired
    } else this.waiting.set(text, { key, since: sequence, request, expired })
    this.start()
  }

  /** A promise when the reader must wait for some of them. */
  busy(): Promise<void> | undefined {
    return this.waiting.size > MAX_WAITING ? new Promise((done) => this.waiters.push(done)) : undefined
  }

  stop(): void {
    this.stopped = true
    for (const done of this.waiters.splice(0)) done()
  }

  private start(): void {
    if (this.stopped) return
    for (const [text, wanted] of this.waiting) {
      if (this.running.size >= CONCURRENCY) return
      if (this.running.has(text)) continue
      this.waiting.delete(text)
      this.running.set(text, wanted)
      void this.untilLoaded(wanted).then(() => this.onDone(text))
    }
  }

  private onDone(text: string): void {
    this.running.delete(text)
    if (this.waiting.size <= MAX_WAITING / 2) for (const done of this.waiters.splice(0)) done()
    this.start()
  }

  private async untilLoaded(wanted: Wanted): Promise<void> {
    const { deps } = this
    for (let tries = 0; !this.stopped; ) {
      try {
        const request = wanted.request === undefined ? {} : { request: wanted.request }
        if (wanted.expired && (await deps.hasRecord(wanted.key))) return
        // The microtask lets the message that asked be counted as taken.
        await Promise.resolve()
        const loaded = await loadPass(deps, wanted.key, { up_to: deps.position(), ...request })
        if (await deps.onLoaded(loaded)) return
      } catch (error) {
        if (!mayPass(error) && ++tries >= MAX_TRIES) {
          deps.log.error({ pass: keyText(wanted.key), err: error }, 'pass given up: no record can be made of it')
          return
        }
        deps.log.warn({ pass: keyText(wanted.key), err: error }, 'pass not read')
        await new Promise<void>((done) => deps.clock.after(RETRY_MS, done))
      }
    }
  }
}
