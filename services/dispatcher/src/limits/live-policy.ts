import { type CurrentPolicy, PolicyStore } from '@passover/bus'
import type { PassOverPreferences, PolicyVersion } from '@passover/schemas'
import { type DispatcherDeps, timingOf } from '../runtime/dependencies.js'

/** A version that was published and is not in force is its author's affair for so long; then a dispatcher puts it there. */
const GRACE_MS = 1_500
/** A policy that was not read for so long may be out of date. */
const UNREAD_MS = 4_000

/** What one pass is admitted under. The same object while the version is the same: core remembers what it resolved of it. */
export interface PolicyInForce {
  readonly version: number
  readonly document: PassOverPreferences
}

/**
 * The policy in force, as the bucket `policy` has it: watched, read again every `refresh_ms` and after each reconnect, since
 * a watch may be silent after a restart of the server. Only a valid, newer version replaces the one before, unless the stream lost
 * that one: then all is read as at a start, so that running dispatchers and new ones go by the same version.
 */
export class LivePolicy implements AsyncDisposable {
  readonly #deps: DispatcherDeps
  readonly #store: PolicyStore
  readonly #refresh_ms: number
  /** What holds while no version is in force. */
  readonly #fallback: PolicyInForce
  #current: PolicyInForce
  /** The version in force as it was published; undefined: none is. */
  #published: PolicyVersion | undefined
  /** Stream sequence of the newest version that was heard of, and when; of the newest that was looked into. */
  #heard = { sequence: 0, at: 0 }
  #settled = 0
  #complaint = ''
  /** When the bucket was read last (monotonic ms). */
  #readAt = 0
  #opened: AsyncDisposable[] = []
  #timer: Disposable | undefined
  #reading: Promise<void> | undefined
  #stopped = false

  private constructor(deps: DispatcherDeps, store: PolicyStore, { fallback, refresh_ms }: { fallback: PolicyInForce; refresh_ms: number }) {
    this.#deps = deps
    this.#store = store
    this.#refresh_ms = refresh_ms
    this.#fallback = fallback
    this.#current = fallback
  }

  /** `fallback` holds while the bucket has no version. When this resolves, what is in force is known. */
  static async start(deps: DispatcherDeps, options: { fallback: PolicyInForce; refresh_ms: number }): Promise<LivePolicy> {
    const live = new LivePolicy(deps, await PolicyStore.open(deps.bus, timingOf(deps)), options)
    await live.#begin()
    return live
  }

  /** One pass takes it once: what it is decided by is one version, the one that it records. */
  current(): PolicyInForce {
    return this.#current
  }

  /** Why the bucket's policy is not taken; empty: it is. */
  get complaint(): string {
    return this.#complaint && `the live policy is not valid; version ${this.#current.version} stays in force`
  }

  /** Why a change would not be seen now; undefined: it would. */
  get trouble(): string | undefined {
    const { version } = this.#current
    const blind = this.#deps.clock.monotonic() - this.#readAt > UNREAD_MS + this.#refresh_ms
    return blind ? `the live policy cannot be read; version ${version} stays in force` : undefined
  }

  /** Reads it now: the bucket may be another. */
  again(): Promise<void> {
    return this.#read()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true
    this.#timer?.[Symbol.dispose]()
    for (const one of this.#opened.reverse()) await one[Symbol.asyncDispose]()
    await this.#reading
  }

  async #begin(): Promise<void> {
    const { bus } = this.#deps
    const value = await this.#find()
    if (value) this.#accept(value)
    const watch = await this.#store.watch((changed) => this.#take(changed))
    this.#opened.push(watch)
    await watch.ready
    const filters = [bus.subjects.all('policy')]
    this.#opened.push(
      await bus.follow({ filters, from: this.#sequence + 1, headers_only: true }, ({ sequence }) => {
        this.#heard = { sequence, at: this.#deps.clock.monotonic() }
      }),
    )
    const off = bus.onReconnect(() => void this.#read())
    this.#opened.push({ [Symbol.asyncDispose]: async () => off() })
    this.#readAt = this.#deps.clock.monotonic()
    this.#tick()
  }

  get #sequence(): number {
    return this.#published?.sequence ?? 0
  }

  /** What a dispatcher that starts now takes; undefined: the fallback. */
  async #find(): Promise<PolicyVersion | undefined> {
    const stand = await this.#store.stand()
    if (stand.kind !== 'invalid') return this.#store.rollForward()
    this.#take(stand)
    const [newest] = await this.#store.versions()
    return newest
  }

  /** The stream lost the version in force: no other can be held against it. Until what is there now is found, it stays in force. */
  async #startOver({ version }: PolicyVersion): Promise<void> {
    this.#deps.log.warn({ version }, 'the stream lost the version in force: the policy is read anew')
    this.#heard = { sequence: 0, at: 0 }
    this.#settled = 0
    const value = await this.#find()
    this.#published = undefined
    this.#current = this.#fallback
    if (value) this.#accept(value)
  }

  #tick(): void {
    if (this.#stopped) return
    this.#timer = this.#deps.clock.after(this.#refresh_ms, () => {
      void this.#read().then(() => this.#tick())
    })
  }

  #read(): Promise<void> {
    this.#reading ??= this.#look()
      .catch((error: unknown) => this.#deps.log.debug({ err: error }, 'the policy could not be read'))
      .finally(() => {
        this.#reading = undefined
      })
    return this.#reading
  }

  async #look(): Promise<void> {
    if (this.#published && (await this.#store.isLost(this.#published))) await this.#startOver(this.#published)
    const stand = await this.#store.stand()
    this.#take(stand)
    const { sequence, at } = this.#heard
    // What is no version stays newer than the one in force for ever: it is looked into once.
    this.#readAt = this.#deps.clock.monotonic()
    // The bucket was made anew: the stream has every version.
    const emptied = stand.kind === 'none' && this.#sequence > 0
    if (stand.kind === 'invalid' || (!emptied && sequence <= Math.max(this.#sequence, this.#settled))) return
    if (!emptied && this.#readAt - at < GRACE_MS) return
    const value = await this.#store.rollForward()
    this.#settled = sequence
    if (value) this.#accept(value)
  }

  #take(stand: CurrentPolicy): void {
    if (stand.kind === 'valid') this.#accept(stand.value)
    if (stand.kind !== 'invalid' || stand.why === this.#complaint) return
    this.#complaint = stand.why
    const { version } = this.#current
    this.#deps.log.error({ why: stand.why, version }, 'the live policy is not valid: the last good one stays in force')
  }

  /** A copy that lags behind may show an older version than one that was seen before. */
  #accept(published: PolicyVersion): void {
    const { version, document, by, reason } = published
    this.#complaint = ''
    if (version <= this.#current.version) return
    this.#current = { version, document }
    this.#published = published
    this.#deps.log.info({ version, by, reason }, 'policy in force')
  }
}
