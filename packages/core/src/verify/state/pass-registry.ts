import { type EventFact, keyText, type PassKey, type RequestFact, type Step } from '@passover/schemas'
import { EMPTY_JOURNAL } from '../../journal/state-machine.js'
import { RecentEntries, SeenNames } from './recent-entries.js'
import { type PassState, type RecordedMessage, type RequestState, requestDigest } from './recorded-message.js'
import { UnansweredRequests } from './unanswered-requests.js'

/**
 * Number of ended passes that are kept in case they are named as a parent or requested again; the next constant is for passes that may still be
 * applied.
 */
const ENDED_KEPT = 4_000
const APPLIED_KEPT = 10_000
const CANCELS_KEPT = 4_000
const ERASED_KEPT = 10_000

/** Open passes, and ended ones that may still be needed. Memory is limited by the number of open passes plus constants. */
export class PassRegistry {
  readonly open = new Map<string, PassState>()
  readonly asking = new UnansweredRequests()
  readonly #ended = new RecentEntries<PassState>(ENDED_KEPT)
  readonly #applicable = new RecentEntries<PassState>(APPLIED_KEPT)
  readonly #closed = new SeenNames()
  readonly #cancels = new RecentEntries<number>(CANCELS_KEPT)
  readonly #erased = new RecentEntries<true>(ERASED_KEPT)

  /** Returns a pass that is open, or that ended and is still kept. */
  find(key: PassKey): PassState | undefined {
    const text = keyText(key)
    return this.open.get(text) ?? this.#ended.get(text) ?? this.#applicable.get(text)
  }

  /** Returns true if the pass ended, as far as that is still known. */
  hasEnded(key: PassKey): boolean {
    return this.#closed.has(keyText(key))
  }

  begin(step: Step, partial: boolean): PassState {
    const text = keyText(step.key)
    const pass: PassState = {
      key: step.key,
      text,
      journal: EMPTY_JOURNAL,
      steps: [],
      proofs: [],
      decisions: [],
      violated: [],
      applied_by: new Map(),
      events: [],
      cancelled: this.#cancels.get(text) !== undefined,
      partial,
      erased: this.isErased(text),
    }
    this.open.set(text, pass)
    return pass
  }

  /** Ends a pass. Afterwards only what repeated requests, children and applications need is kept. */
  end(pass: PassState): void {
    this.open.delete(pass.text)
    this.#closed.add(pass.text)
    if (pass.return_digest === undefined) {
      pass.output = undefined
      this.#ended.set(pass.text, pass)
    } else this.#applicable.set(pass.text, pass)
  }

  /** Records a pass that ended and cannot be judged. */
  forget(key: PassKey): void {
    this.#closed.add(keyText(key))
  }

  cancel(fact: EventFact): void {
    const pass = this.find(fact.key)
    if (pass) pass.cancelled = true
    else this.#cancels.set(keyText(fact.key), fact.sequence)
  }

  /** Records that messages of a pass were erased. */
  erase(key: PassKey): void {
    const pass = this.find(key)
    if (pass) pass.erased = true
    else this.#erased.set(keyText(key), true)
  }

  isErased(text: string): boolean {
    return this.#erased.get(text) !== undefined
  }

  /** Adds a request that needs a step of its own. A repetition of an answered request does not. */
  ask(recorded: RecordedMessage, fact: RequestFact): void {
    const reading = recorded.reading()
    const id = fact.id ?? (reading.ok ? reading.value.request.id : undefined)
    const key = id === undefined ? undefined : { originator: fact.originator, subagent: fact.subagent, id }
    const text = key && keyText(key)
    const known = key && this.find(key)
    const begun = known !== undefined || (key !== undefined && this.hasEnded(key))
    const digest = known?.steps[0]?.digest
    if (begun && (digest === undefined || digest === requestDigest(recorded))) return
    this.asking.add({ fact, recorded, text, other: begun })
  }

  /** Removes the request that a first step answers, and its repetitions. */
  takeAnswered(step: Step, answers: (fact: RequestFact) => boolean): RequestState | undefined {
    const named = step.request === undefined ? undefined : this.asking.get(step.request)
    const asked = named && answers(named.fact) ? named : undefined
    if (asked) this.asking.remove(asked)
    this.asking.settle(keyText(step.key), step.digest)
    return asked
  }
}
