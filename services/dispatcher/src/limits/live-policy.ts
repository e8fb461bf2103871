import { type CurrentPolicy, PolicyStore } from '@passover/bus'
import type { PassOverPreferences, PolicyVersion } from '@passover/schemas'
import { type DispatcherDeps, timingOf } from '../runtime/dependencies.js'

/** Milliseconds after which a dispatcher puts a published version in force if the process that published it has not done so. */
const GRACE_MS = 1_500
/** Milliseconds without a successful read, in addition to the refresh interval, after which the policy may be out of date. */
const UNREAD_MS = 4_000

/**
 * Policy under which a pass is admitted. Stays the same object while the version is the same, because core caches what it resolves by this object.
 */
export interface PolicyInForce {
  readonly version: number
  readonly document: PassOverPreferences
}

/**
 * The policy in force, from the bucket `policy`. The bucket is watched, and also read every `refresh_ms` and after each reconnect, because a watch may
 * deliver nothing after a server restart. Only a valid, newer version replaces the current one. If the stream lost the current version, everything is
 * read again as at a start, so that running and newly started dispatchers use the same version.
 */
export class LivePolicy implements AsyncDisposable {
  readonly #deps: DispatcherDeps
  readonly #store: PolicyStore
  readonly #refresh_ms: number
  /** Policy used while no version is in force. */
  readonly #fallback: PolicyInForce
  #current: PolicyInForce
  /** The version in force as it was published; `undefined` if there is none. */
  #published: PolicyVersion | undefined
  /** Stream sequence of the newest policy event and when it was read (monotonic ms), and the sequence of the newest event that has been processed. */
  #newestEvent = { sequence: 0, at: 0 }
  #settled = 0
  #complaint = ''
  /** Monotonic time in milliseconds of the last read of the bucket. */
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

  /** Starts watching. `fallback` is used while the bucket has no version. When this resolves, the policy in force is known. */
  static async start(deps: DispatcherDeps, options: { fallback: PolicyInForce; refresh_ms: number }): Promise<LivePolicy> {
    const live = new LivePolicy(deps, await PolicyStore.open(deps.bus, timingOf(deps)), options)
    await live.#begin()
    return live
  }

  /** Returns the policy in force. Call it once for each pass, so that the decision and the record use the same version. */
  current(): PolicyInForce {
    return this.#current
  }

  /** Reports that the bucket's policy is invalid and not used; empty if it is valid. */
  get complaint(): string {
    return this.#complaint && `the live policy is not valid; version ${this.#current.version} stays in force`
  }

  /** Reports that a change of the policy would go unnoticed; `undefined` while the policy can be read. */
  get trouble(): string | undefined {
    const { version } = this.#current
    const blind = this.#deps.clock.monotonic() - this.#readAt > UNREAD_MS + this.#refresh_ms
    return blind ? `the live policy cannot be read; version ${version} stays in force` : undefined
  }

  /** Reads the policy now, because the bucket may have been re-created. */
  refresh(): Promise<void> {
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
    const watch = await this.#store.watch((changed) => this.#acceptIfValid(changed))
    this.#opened.push(watch)
    await watch.ready
    const filters = [bus.subjects.all('policy')]
    this.#opened.push(
      await bus.follow({ filters, from: this.#sequence + 1, headers_only: true }, ({ sequence }) => {
        this.#newestEvent = { sequence, at: this.#deps.clock.monotonic() }
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

  /** Returns the version that a newly started dispatcher uses, or `undefined` for the fallback. */
  async #find(): Promise<PolicyVersion | undefined> {
    const stand = await this.#store.stand()
    if (stand.kind !== 'invalid') return this.#store.rollForward()
    this.#acceptIfValid(stand)
    const [newest] = await this.#store.versions()
    return newest
  }

  /**
   * Reads all versions again after the stream lost the version in force, because other versions cannot be compared with it. The lost version stays in
   * force until a version is found.
   */
  async #startOver({ version }: PolicyVersion): Promise<void> {
    this.#deps.log.warn({ version }, 'the stream lost the version in force; reading the policy again')
    this.#newestEvent = { sequence: 0, at: 0 }
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
    this.#reading ??= this.#readStore()
      .catch((error: unknown) => this.#deps.log.debug({ err: error }, 'the policy could not be read'))
      .finally(() => {
        this.#reading = undefined
      })
    return this.#reading
  }

  async #readStore(): Promise<void> {
    if (this.#published && (await this.#store.isLost(this.#published))) await this.#startOver(this.#published)
    const stand = await this.#store.stand()
    this.#acceptIfValid(stand)
    const { sequence, at } = this.#newestEvent
    // An event that is not a valid version stays newer than the version in force forever, so it is processed only once.
    this.#readAt = this.#deps.clock.monotonic()
    // The bucket was re-created; the stream still has every version.
    const emptied = stand.kind === 'none' && this.#sequence > 0
    if (stand.kind === 'invalid' || (!emptied && sequence <= Math.max(this.#sequence, this.#settled))) return
    if (!emptied && this.#readAt - at < GRACE_MS) return
    const value = await this.#store.rollForward()
    this.#settled = sequence
    if (value) this.#accept(value)
  }

  #acceptIfValid(current: CurrentPolicy): void {
    if (current.kind === 'valid') this.#accept(current.value)
    if (current.kind !== 'invalid' || current.why === this.#complaint) return
    this.#complaint = current.why
    const { version } = this.#current
    this.#deps.log.error({ why: current.why, version }, 'the live policy is not valid; the last valid version stays in force')
  }

  /** Puts a newer version in force. A lagging replica may show an older version than one seen before, which is ignored. */
  #accept(published: PolicyVersion): void {
    const { version, document, by, reason } = published
    this.#complaint = ''
    if (version <= this.#current.version) return
    this.#current = { version, document }
    this.#published = published
    this.#deps.log.info({ version, by, reason }, 'policy in force')
  }
}
