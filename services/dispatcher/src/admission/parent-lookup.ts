import { type Bus, decode, JournalTooLong, type StoredMessage } from '@passover/bus'
import { foldJournal, type JournalRules, type JournalState, openControl } from '@passover/core'
import { keyText, type PassKey, type Step, type WorkControl, type WorkEnvelope } from '@passover/schemas'

export interface FoundParent {
  journal: JournalState
  control: WorkControl
}

/** A pass that a request names as its parent, with the values that prove it. */
export type ClaimedParent = PassKey & {
  /** Sequence of the parent's last step that counts. */
  proof: number
  /** Return id from the parent's work step. Omitted if it was checked before. */
  return_id?: string
}

/**
 * Maximum number of remembered parents whose journal is too long to be read. They are refused without another read, because a journal never gets
 * shorter.
 */
const MAX_CROWDED = 10_000

/** Reads and verifies claimed parents for one dispatcher. */
export class ParentLookup {
  readonly #bus: Bus
  readonly #rules: JournalRules
  readonly #crowded = new Set<string>()

  constructor(bus: Bus, rules: JournalRules) {
    this.#bus = bus
    this.#rules = rules
  }

  /**
   * Reads a claimed parent from the leader. Returns `undefined` if it was never admitted or the claim is wrong. Parents, deadline and rights of the
   * child come from here, never from the request (P3). The step that the proof names is read first, so that a client cannot make a dispatcher read
   * journals by guessing. The number of steps read is limited to the maximum of an honest journal.
   */
  async read(claimed: ClaimedParent): Promise<FoundParent | undefined> {
    const { originator, subagent, id } = claimed
    const key: PassKey = { originator, subagent, id }
    const text = keyText(key)
    if (this.#crowded.has(text)) return undefined
    const proof = await this.#bus.journal.message(claimed.proof)
    const step = proof && this.#stepOf(proof, text)
    if (!step) return undefined
    const known = step.kind === 'work' ? this.#controlIn(proof) : undefined
    if (step.kind === 'work' && !isClaimed(known, claimed)) return undefined
    return this.#fold(key, { known, claimed })
  }

  async #fold(
    key: PassKey,
    { known, claimed }: { known: WorkControl | undefined; claimed: ClaimedParent },
  ): Promise<FoundParent | undefined> {
    const steps = await this.#steps(key)
    if (!steps) return undefined
    const { journal } = foldJournal(steps, this.#rules)
    if ((journal.state !== 'open' && journal.state !== 'done') || !journal.work) return undefined
    const control = known && journal.work.sequence === claimed.proof ? known : await this.#control(journal.work.sequence)
    return control && { journal, control }
  }

  /** Returns the steps of a journal, or `undefined` if there are more than an honest journal can have. */
  async #steps(key: PassKey): Promise<Step[] | undefined> {
    try {
      return await this.#bus.journal.read(key)
    } catch (error) {
      if (!(error instanceof JournalTooLong)) throw error
      if (this.#crowded.size >= MAX_CROWDED) this.#crowded.clear()
      this.#crowded.add(keyText(key))
      return undefined
    }
  }

  #stepOf(stored: StoredMessage, text: string): { kind: 'work' | 'fence' } | undefined {
    const parsed = this.#bus.subjects.parseTrusted(stored)
    if (parsed.kind !== 'step' || keyText(parsed.key) !== text) return undefined
    return parsed.step === 'work' || parsed.step === 'fence' ? { kind: parsed.step } : undefined
  }

  async #control(sequence: number): Promise<WorkControl | undefined> {
    const message = await this.#bus.journal.message(sequence)
    return message && this.#controlIn(message)
  }

  /** Decodes the control frame of a work step. Only `passover` may write one, so it is not validated again. */
  #controlIn(stored: StoredMessage): WorkControl | undefined {
    const body = decode(stored.data, 'msgpack')
    const frame = body.ok ? (body.value as Partial<WorkEnvelope> | null)?.control : undefined
    const step = this.#bus.subjects.toFact(stored)
    return frame?.policy && step.type === 'step' && step.untrusted === undefined ? openControl(frame, step) : undefined
  }
}

function isClaimed(control: WorkControl | undefined, { return_id }: ClaimedParent): boolean {
  return control !== undefined && (return_id === undefined || control.return_id === return_id)
}
