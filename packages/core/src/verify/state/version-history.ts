import { type AgentRecord, agentBody, noteRevocation, type PassOverPreferences, policyBody, policyDigest } from '@passover/schemas'
import type { RecordedMessage } from './recorded-message.js'

/** Time within which a registration reaches every dispatcher. */
const SPREAD_MS = 10_000

interface Registered {
  record: AgentRecord | undefined
  time: number
  before: Registered | undefined
}

/** Versions of the policy and of the agents' records, as stored in the stream (decision 28). */
export class VersionHistory {
  readonly #policies = new Map<number, { document: PassOverPreferences; sequence: number }>()
  readonly #agents = new Map<string, Registered>()
  /** Agents that are revoked as of the last message read, with the sequence of the message that says so. A removed agent stays revoked. */
  readonly revoked = new Map<string, number>()
  #newest = 0

  /** @param whole - true if the stream is read from the beginning, so that a version that was not read does not exist. */
  constructor(readonly whole: boolean) {}

  get size(): number {
    return this.#policies.size
  }

  /** Reads a version of the policy. Returns a fault or a remark; neither if the version is in force. */
  policy(recorded: RecordedMessage): { fault?: string; remark?: string } {
    const parsed = policyBody.safeParse(recorded.body())
    if (!parsed.success) return { remark: 'is not a valid policy version: readers ignore it' }
    const { version, document, digest } = parsed.data
    if (digest !== policyDigest(document)) return { fault: `the document of policy version ${version} does not match its digest` }
    const expected = this.#newest + 1
    if (version < expected) return { remark: `policy version ${version} was already published` }
    if (version > expected && (this.whole || this.#newest > 0))
      return { fault: `policy version ${version} comes after version ${this.#newest}` }
    this.#newest = version
    this.#policies.set(version, { document, sequence: recorded.fact.sequence })
    return {}
  }

  agent(recorded: RecordedMessage): void {
    const parsed = agentBody.safeParse(recorded.body())
    if (!parsed.success) return
    const { name, record } = parsed.data
    const known = this.#agents.get(name)
    this.#agents.set(name, { record, time: recorded.fact.time, before: known && { ...known, before: undefined } })
    noteRevocation(this.revoked, parsed.data, recorded.fact.sequence)
  }

  /** Returns the document of a version that was published before `sequence`. Version 0 is the system's defaults. */
  document(version: number, sequence: number): PassOverPreferences | undefined {
    if (version === 0) return {} as PassOverPreferences
    const found = this.#policies.get(version)
    return found && found.sequence < sequence ? found.document : undefined
  }

  isAgent(name: string): boolean {
    return this.#agents.get(name)?.record !== undefined
  }

  /**
   * Returns the records of an agent that a dispatcher may have used at a time: the current record, and its predecessor if the current one is recent.
   */
  records(name: string, time: number): (AgentRecord | undefined)[] {
    const known = this.#agents.get(name)
    if (!known) return [undefined]
    const fresh = time - known.time < SPREAD_MS
    return fresh ? [known.record, known.before?.record] : [known.record]
  }
}
