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

/** State of the bucket's `current` entry. `revision` guards the next write; 0 if there is no entry. */
export type CurrentPolicy =
  | { kind: 'none'; revision: 0 }
  | { kind: 'valid'; value: PolicyVersion; revision: number }
  | { kind: 'invalid'; why: string; revision: number }

/** A new version as its author intends it. `base` is the version that was edited (0: the system's defaults). */
export interface PolicyDraft {
  document: PassOverPreferences
  base: number
  reason?: string | undefined
}

export type PolicyOutcome =
  | { kind: 'published'; value: PolicyVersion }
  /** The version in force, if it is not the draft's base; `undefined` if none is. */
  | { kind: 'lost'; value: PolicyVersion | undefined }
  | { kind: 'refused'; description: string }

const CURRENT = 'current'
/** Number of tries. With many concurrent writers, each loses to all others before it wins. */
const TRIES = 200

/**
 * The live policy. Each version is first an event in the stream, which orders them, and then an entry in the bucket, which dispatchers watch. A
 * writer that dies in between leaves a version that is published but not in force; any process repairs that with `rollForward`.
 */
export class PolicyStore {
  readonly table: Table<unknown>
  readonly #bus: Bus
  readonly #timing: Timing
  /** Last version read from the stream. A cache: each version is read once, not at every check. */
  #said: PolicyVersion | undefined

  private constructor(bus: Bus, table: Table<unknown>, timing: Timing) {
    this.#bus = bus
    this.table = table
    this.#timing = timing
  }

  /** Opens the store. `timing` is the clock for waiting on concurrent writers. */
  static async open(bus: Bus, timing: Timing = machineTiming): Promise<PolicyStore> {
    // Read without a schema: invalid entries must be reported, not skipped.
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

  /** Returns every version in the bucket that the stream confirms, newest first. */
  async versions(): Promise<PolicyVersion[]> {
    const found: Promise<PolicyVersion | undefined>[] = []
    for await (const { value } of this.table.entries('version.*')) found.push(this.#versionOf(value))
    const versions = (await Promise.all(found)).filter((version) => version !== undefined)
    return versions.sort((a, b) => b.version - a.version)
  }

  /** Returns true if the stream has lost this version, according to its leader: it was rolled back to before it, or is another stream. */
  async isLost({ version, digest, sequence }: PolicyVersion): Promise<boolean> {
    const stored = await this.#bus.journal.message(sequence)
    const said = stored && this.#read(stored)
    if (said?.version === version && said.digest === digest) return false
    // A deleted event does not count as lost.
    if (!stored && (await this.#bus.bounds()).last >= sequence) return false
    this.#said = undefined
    return true
  }

  /** Puts a published version into force if it is not yet, and returns the version in force. Rewrites an invalid `current` from the stream. */
  async rollForward(): Promise<PolicyVersion | undefined> {
    const backoff = new Backoff(this.#timing)
    for (let tries = 0; tries < TRIES; tries++) {
      const stand = await this.stand()
      const current = stand.kind === 'valid' ? stand.value : undefined
      const pending = await this.#pending(current)
      if (pending.length === 0 || (await this.#enforce(pending, stand))) return pending.at(-1) ?? current
      await backoff.wait()
    }
    throw new Error('the policy changes too fast to read a consistent version')
  }

  /** Publishes a version and puts it into force. The draft must be validated already. */
  async publish(draft: PolicyDraft): Promise<PolicyOutcome> {
    if (this.#bus.identity === SYSTEM) throw new TypeError('only a person may publish a policy')
    const nonce = randomUUID()
    const backoff = new Backoff(this.#timing)
    for (let tries = 0; tries < TRIES; tries++) {
      const current = await this.rollForward()
      if ((current?.version ?? 0) !== draft.base) {
        // Other versions may already be based on this one.
        const next = tries > 0 ? await this.version(draft.base + 1) : undefined
        return next && (await this.#isMine(next, nonce)) ? { kind: 'published', value: next } : { kind: 'lost', value: current }
      }
      const last = await this.#bus.journal.newest(this.#bus.subjects.all('policy'))
      // Another version was published meanwhile: it is put into force first, and then this draft has lost.
      if (last && last.sequence > (current?.sequence ?? 0) && this.#read(last)?.version === draft.base + 1) continue
      const outcome = await this.#bus.publish(this.#message(draft, nonce, last?.sequence ?? 0))
      if (outcome.kind === 'refused' && outcome.reason !== 'closed') return { kind: 'refused', description: outcome.description }
      if (outcome.kind === 'unknown' || outcome.kind === 'refused') await backoff.wait()
    }
    return { kind: 'refused', description: 'too many people are changing the policy at the same time' }
  }

  /**
   * Calls back with the present `current` and after each change, except deletions and entries that cannot be verified at the moment. An exception in
   * the callback is ignored until the next change: users of the policy also read it periodically.
   */
  watch(onChange: (current: CurrentPolicy) => void): Promise<{ ready: Promise<void> } & AsyncDisposable> {
    return this.table.watch((_, value) => {
      if (value === undefined) return
      void this.#standOf(value, 0)
        .then(onChange)
        .catch(() => undefined)
    }, CURRENT)
  }

  /**
   * Verifies an entry of the bucket against the stream: only the event at the named sequence, read from the leader, counts. Otherwise a client with
   * write access to the bucket could put a policy into force that no person published.
   */
  async #standOf(value: unknown, revision: number): Promise<CurrentPolicy> {
    const parsed = policyVersion.safeParse(value)
    if (!parsed.success) return { kind: 'invalid', why: issueTexts(parsed.error.issues, 5, 'the stored version').join('; '), revision }
    const { version, digest, document, sequence } = parsed.data
    if (policyDigest(document) !== digest) return { kind: 'invalid', why: 'its digest does not match', revision }
    const said = await this.#event(sequence)
    if (said?.version === version && said.digest === digest) return { kind: 'valid', value: said, revision }
    return {
      kind: 'invalid',
      why: `no event at sequence ${sequence} of the stream publishes version ${version} with this document`,
      revision,
    }
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

  /** Returns the valid versions newer than the one in force, in order. Each must have the number after its predecessor's. */
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

  /**
   * Puts only the last version into force: no reader should follow versions that were already replaced. Returns false if another writer was faster.
   */
  async #enforce(pending: PolicyVersion[], current: CurrentPolicy): Promise<boolean> {
    const newest = pending.at(-1)
    for (const one of pending) {
      const key = `version.${one.version}`
      if ((await this.table.create(key, one)) !== undefined) continue
      const present = await this.version(one.version)
      if (present?.sequence !== one.sequence) await this.table.put(key, one)
    }
    const written = current.revision === 0 ? this.table.create(CURRENT, newest) : this.table.update(CURRENT, newest, current.revision)
    return (await written) !== undefined
  }
}
