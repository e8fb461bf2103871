import { randomUUID } from 'node:crypto'
import {
  HEADER,
  issueTexts,
  type PassOverPreferences,
  type PolicyBody,
  type PolicyVersion,
  passOverPreferences,
  policyBody,
  policyDigest,
  policyVersion,
  SYSTEM,
  WIRE_VERSION,
} from '@passover/schemas'
import { z } from 'zod'
import { Backoff } from '../clock/backoff.js'
import { machineTiming, type Timing } from '../clock/timing.js'
import { CONTENT_TYPE, decode, encode } from '../codec/codec.js'
import type { Bus } from '../types/bus.js'
import type { Table } from '../types/stores.js'
import type { StoredMessage } from '../wire/messages.js'

/** How the bucket's `current` stands. `revision` is what the next write of it expects; 0: there is none. */
export type CurrentPolicy =
  | { kind: 'none'; revision: 0 }
  | { kind: 'valid'; value: PolicyVersion; revision: number }
  | { kind: 'invalid'; why: string; revision: number }

/** A new version as its author means it: `base` is the version that was changed (0: the system's defaults). */
export interface PolicyDraft {
  document: PassOverPreferences
  base: number
  reason?: string | undefined
}

export type PolicyOutcome =
  | { kind: 'published'; value: PolicyVersion }
  /** Another version than the draft's base is in force: this one; undefined: none is. */
  | { kind: 'lost'; value: PolicyVersion | undefined }
  | { kind: 'refused'; description: string }

const CURRENT = 'current'
/** Of many who write at once each loses to all others before it wins. */
const TRIES = 200

/**
 * The live policy: each version an event in the stream, which orders them, and then in the bucket, which dispatchers watch.
 * Who dies between the two leaves a version that is published and not in force; `rollForward` by anybody mends it.
 */
export class PolicyStore {
  readonly table: Table<unknown>
  readonly #bus: Bus
  readonly #timing: Timing
  /** What the stream said of the version that was asked for last: it is asked once a version, not at each look. */
  #said: PolicyVersion | undefined

  private constructor(bus: Bus, table: Table<unknown>, timing: Timing) {
    this.#bus = bus
    this.table = table
    this.#timing = timing
  }

  /** `timing`: by which it waits while others write. */
  static async open(bus: Bus, timing: Timing = machineTiming): Promise<PolicyStore> {
    // Read as it is: what its schema refuses must be told, not left out.
    return new PolicyStore(bus, await bus.table('policy', z.unknown()), timing)
  }

  async stand(): Promise<CurrentPolicy> {
    const entry = await this.table.get(CURRENT)
    return entry ? this.#standOf(entry.value, entry.revision) : { kind: 'none', revision: 0 }
  }

  async version(version: number): Promise<PolicyVersion | undefined> {
    const entry = await this.table.get(`version.${version}`)
    return entry && this.#versionOf(entry.value)
  }

  /** Every version that the bucket has and the stream confirms, newest first. */
  async versions(): Promise<PolicyVersion[]> {
    const found: Promise<PolicyVersion | undefined>[] = []
    for await (const { value } of this.table.entries('version.*')) found.push(this.#versionOf(value))
    const versions = (await Promise.all(found)).filter((version) => version !== undefined)
    return versions.sort((a, b) => b.version - a.version)
  }

  /** Whether the stream lost this version, as its leader says now: it went back to before it, or is another one. */
  async isLost({ version, digest, sequence }: PolicyVersion): Promise<boolean> {
    const stored = await this.#bus.journal.message(sequence)
    const said = stored && this.#read(stored)
    if (said?.version === version && said.digest === digest) return false
    // An event that somebody deleted changes nothing.
    if (!stored && (await this.#bus.bounds()).last >= sequence) return false
    this.#said = undefined
    return true
  }

  /** Puts into force what was published and is not; gives what is in force then. An invalid `current` is made anew from the stream. */
  async rollForward(): Promise<PolicyVersion | undefined> {
    const backoff = new Backoff(this.#timing)
    for (let tries = 0; tries < TRIES; tries++) {
      const stand = await this.stand()
      const current = stand.kind === 'valid' ? stand.value : undefined
      const pending = await this.#pending(current)
      if (pending.length === 0 || (await this.#enforce(pending, stand))) return pending.at(-1) ?? current
      await backoff.wait()
    }
    throw new Error('the policy changes faster than it can be followed')
  }

  /** Publishes a version and puts it into force. The draft is taken to be checked already. */
  async publish(draft: PolicyDraft): Promise<PolicyOutcome> {
    if (this.#bus.identity === SYSTEM) throw new TypeError('a policy is a person’s')
    const nonce = randomUUID()
    const backoff = new Backoff(this.#timing)
    for (let tries = 0; tries < TRIES; tries++) {
      const current = await this.rollForward()
      if ((current?.version ?? 0) !== draft.base) {
        // Others may have gone on from mine already.
        const next = tries > 0 ? await this.version(draft.base + 1) : undefined
        return next && (await this.#isMine(next, nonce)) ? { kind: 'published', value: next } : { kind: 'lost', value: current }
      }
      const last = await this.#bus.journal.newest(this.#bus.subjects.all('policy'))
      // Somebody's version came since: it is put into force first, and then this one has lost.
      if (last && last.sequence > (current?.sequence ?? 0) && this.#read(last)?.version === draft.base + 1) continue
      const outcome = await this.#bus.publish(this.#message(draft, nonce, last?.sequence ?? 0))
      if (outcome.kind === 'refused' && outcome.reason !== 'closed') return { kind: 'refused', description: outcome.description }
      if (outcome.kind === 'unknown' || outcome.kind === 'refused') await backoff.wait()
    }
    return { kind: 'refused', description: 'too many people change the policy at the same time' }
  }

  /**
   * Calls back with `current` as it stands and whenever it changes; what was deleted, or cannot be confirmed just now, is not told. One that
   * throws is told of the next change: whoever lives by the policy reads it now and then besides.
   */
  watch(onChange: (stand: CurrentPolicy) => void): Promise<{ ready: Promise<void> } & AsyncDisposable> {
    return this.table.watch((_, value) => {
      if (value === undefined) return
      void this.#standOf(value, 0)
        .then(onChange)
        .catch(() => undefined)
    }, CURRENT)
  }

  /**
   * The bucket names a version, the stream says it: what counts is the event at the named sequence, read from the leader. Else
   * whoever may write the bucket could put a policy into force that nobody published.
   */
  async #standOf(value: unknown, revision: number): Promise<CurrentPolicy> {
    const parsed = policyVersion.safeParse(value)
    if (!parsed.success) return { kind: 'invalid', why: issueTexts(parsed.error.issues, 5, 'the stored version').join('; '), revision }
    const { version, digest, document, sequence } = parsed.data
    if (policyDigest(document) !== digest) return { kind: 'invalid', why: 'its digest is another', revision }
    const said = await this.#event(sequence)
    if (said?.version === version && said.digest === digest) return { kind: 'valid', value: said, revision }
    return { kind: 'invalid', why: `no event at sequence ${sequence} of the stream says version ${version} with this document`, revision }
  }

  async #event(sequence: number): Promise<PolicyVersion | undefined> {
    if (this.#said?.sequence === sequence) return this.#said
    const stored = await this.#bus.journal.message(sequence)
    const said = stored && this.#read(stored)
    if (said) this.#said = said
    return said
  }

  async #versionOf(value: unknown): Promise<PolicyVersion | undefined> {
    const stand = await this.#standOf(value, 0)
    return stand.kind === 'valid' ? stand.value : undefined
  }

  #message({ document, base, reason }: PolicyDraft, nonce: string, after: number) {
    const { $schema: _, ...plain } = passOverPreferences.parse(document)
    const digest = policyDigest(plain)
    const body: PolicyBody = { v: WIRE_VERSION, version: base + 1, base, document: plain, digest, ...(reason ? { reason } : {}) }
    const { subjects, identity } = this.#bus
    return {
      subject: subjects.policy(identity),
      headers: { [HEADER.contentType]: CONTENT_TYPE.msgpack, [HEADER.nonce]: nonce, [HEADER.policy]: String(base + 1) },
      data: encode(body),
      guard: { subject: subjects.all('policy'), sequence: after },
    }
  }

  async #isMine({ by, sequence }: PolicyVersion, nonce: string): Promise<boolean> {
    if (by !== this.#bus.identity) return false
    return (await this.#bus.journal.message(sequence))?.headers.get(HEADER.nonce) === nonce
  }

  /** Versions that count and are newer than the one in force, in order: each is the next of the one before. */
  async #pending(after: PolicyVersion | undefined): Promise<PolicyVersion[]> {
    const filter = this.#bus.subjects.all('policy')
    const found: PolicyVersion[] = []
    let version = after?.version ?? 0
    let from = (after?.sequence ?? 0) + 1
    for (;;) {
      const stored = await this.#bus.journal.first(filter, from)
      if (!stored) return found
      const read = this.#read(stored)
      if (read?.version === version + 1) {
        found.push(read)
        version += 1
      }
      from = stored.sequence + 1
    }
  }

  #read(stored: StoredMessage): PolicyVersion | undefined {
    const parsed = this.#bus.subjects.parseTrusted(stored)
    const decoded = decode(stored.data, stored.headers.get(HEADER.contentType))
    const body = policyBody.safeParse(decoded.ok ? decoded.value : undefined)
    if (parsed.kind !== 'policy' || parsed.person === SYSTEM || !body.success || policyDigest(body.data.document) !== body.data.digest)
      return undefined
    const { version, document, digest, reason } = body.data
    return { version, document, digest, by: parsed.person, time: stored.time, sequence: stored.sequence, ...(reason ? { reason } : {}) }
  }

  /** Only the last of them comes into force: nobody must follow versions that were replaced already. False: somebody was faster. */
  async #enforce(pending: PolicyVersion[], stand: CurrentPolicy): Promise<boolean> {
    const newest = pending.at(-1)
    for (const one of pending) {
      const key = `version.${one.version}`
      if ((await this.table.create(key, one)) !== undefined) continue
      const present = await this.version(one.version)
      if (present?.sequence !== one.sequence) await this.table.put(key, one)
    }
    const written = stand.revision === 0 ? this.table.create(CURRENT, newest) : this.table.update(CURRENT, newest, stand.revision)
    return (await written) !== undefined
  }
}
