import { appliedBody, type EventFact, keyText, type PassKey, type Step, SYSTEM } from '@passover/schemas'
import { answersRequest, requestNamed } from '../journal/request-matching.js'
import { EMPTY_JOURNAL, type JournalRules, type JournalState, next } from '../journal/state-machine.js'
import { ancestryFault } from './rules/ancestry.js'
import { appliedFault, dispatchFault, heldDiffers, undoneRemark } from './rules/approval.js'
import { type FirstStep, judgeBeginning, type RuleViolation } from './rules/first-step.js'
import { overdue } from './rules/overdue.js'
import { judgeReturn, type Returned } from './rules/return.js'
import { guardedBefore, guardFault } from './rules/step-guard.js'
import { type ErasedDigest, Erasures } from './state/erasures.js'
import { bodyOf, partsIn, setFrame } from './state/message-bodies.js'
import { known, type ParentNamed, parentNamedBy, parentOf } from './state/parent-reference.js'
import { PassRegistry } from './state/pass-registry.js'
import { RecentEntries } from './state/recent-entries.js'
import {
  NO_COUNTS,
  type PassState,
  type RecordedMessage,
  type RequestState,
  type VerifyCounts,
  type VerifyFinding,
  type VerifyRule,
} from './state/recorded-message.js'
import { VersionHistory } from './state/version-history.js'

export interface VerifyOptions extends JournalRules {
  /** First sequence of the verified range; messages before it are not known. 1 means everything. */
  from: number
  /** True if only some passes are read (completely), and only the versions that they name. */
  selection?: boolean | undefined
  /**
   * Milliseconds by which a pass may exceed its deadline without a return at the end of the verified range, because services may be down at that
   * moment.
   */
  slack_ms?: number
  onFinding(finding: VerifyFinding): void
  /** Called with each step that readers accept. Not called for steps that they ignore. */
  onCounted?: ((recorded: RecordedMessage) => void) | undefined
  /** Called with each request and the first step that answers it. */
  onBegin?: ((beginning: FirstStep) => void) | undefined
}

const SLACK_MS = 60_000
const UNTRUSTED_KEPT = 10_000

/**
 * Checks all stored messages, in order, by the rules alone (P1 to P5), without any other data of the services. Memory is limited by the open passes:
 * of an ended pass only its name is kept, and somewhat more of the most recent ones.
 */
export class StreamVerifier {
  readonly #options: VerifyOptions
  readonly counts: VerifyCounts = { ...NO_COUNTS }
  readonly #passes = new PassRegistry()
  readonly #erasures: Erasures
  readonly #versions: VersionHistory
  /** Last step that does not count, of passes that have not begun. */
  readonly #beforeFirst = new RecentEntries<number>(UNTRUSTED_KEPT)
  #last = 0
  #time = 0

  constructor(options: VerifyOptions) {
    this.#options = options
    this.#versions = new VersionHistory(options.from <= 1 && !options.selection)
    this.#erasures = new Erasures(options.from)
  }

  /** Number of passes and requests without an end. */
  get open(): number {
    return this.#passes.open.size + this.#passes.asking.size
  }

  add(recorded: RecordedMessage): void {
    const { fact } = recorded
    this.counts.messages++
    if (fact.sequence <= this.#last) this.#find('fault', { rule: 'journal', what: `comes after ${this.#last}` }, fact)
    this.#last = Math.max(this.#last, fact.sequence)
    this.#time = Math.max(this.#time, fact.time)
    if (fact.type === 'request') {
      this.counts.requests++
      if (fact.untrusted !== undefined) this.#untrusted(recorded.subject, fact.untrusted, fact)
      this.#passes.ask(recorded, fact)
    } else if (fact.type === 'step') this.#step(recorded, fact)
    else if (fact.type === 'decision') this.#passes.find(fact.key)?.decisions.push({ ...fact, body: recorded.body() })
    else if (fact.type === 'event') this.#event(recorded, fact)
    else if (fact.type === 'untrusted') this.#untrusted(fact.subject, fact.untrusted, fact)
    else this.#version(recorded)
  }

  /** Reads an entry of which only the digest is kept. `key` is the pass that it belonged to, if known. */
  erased(entry: ErasedDigest, key?: PassKey): void {
    this.counts.messages++
    this.counts.erased++
    this.#last = Math.max(this.#last, entry.sequence)
    this.#erasures.erased(entry, key ? 'named' : 'nameless')
    if (key) this.#passes.erase(key)
  }

  /** Reads a range of entries that are no longer kept. They are treated as if they preceded the verified range. */
  removed(range: { first: number; last: number }): void {
    this.#last = Math.max(this.#last, range.last)
    this.#erasures.removed(range)
  }

  /** Reports what is missing at the time `now` (server ms; default: the time of the last message). */
  finish(now = this.#time): void {
    const { slack_ms = SLACK_MS, onFinding } = this.#options
    for (const finding of overdue(this.#passes, { now, slack_ms, erasures: this.#erasures })) onFinding(finding)
    for (const finding of this.#erasures.missing()) onFinding(finding)
  }

  #step(recorded: RecordedMessage, step: Step): void {
    this.counts.steps++
    if (step.untrusted !== undefined) {
      this.#untrustedStep(step, step.untrusted)
      return
    }
    const pass = this.#passes.open.get(keyText(step.key)) ?? this.#begin(recorded, step)
    if (!pass) return
    this.#noteErased(pass, step)
    const wrong = pass.partial ? undefined : guardFault(pass, step, this.#erasures)
    if (wrong) this.#find('fault', { rule: 'journal', what: wrong }, step)
    const before = pass.journal
    const { journal, ignored } = next(before, step, this.#options)
    pass.journal = journal
    if (ignored !== undefined) {
      const rule: VerifyRule = step.kind === 'return' ? 'one_return' : 'journal'
      if (!pass.partial) this.#find('remark', { rule, what: `${ignored}: readers ignore it` }, step)
      else if (guardedBefore(step) > 0) this.#options.onCounted?.(recorded)
      return
    }
    this.#options.onCounted?.(recorded)
    pass.steps.push(step)
    pass.proofs.push(step.sequence)
    if (before.state === 'none') this.#first(recorded, step, pass)
    else if (step.kind === 'work') this.#afterHold(recorded, step, pass)
    if (step.kind === 'return') this.#ends(recorded, step, { pass, before })
  }

  /** Reads a step that does not count. The guard of the next step names it nevertheless. */
  #untrustedStep(step: Step, why: string): void {
    const { originator, subagent, id } = step.key
    this.#untrusted([step.kind, originator, subagent, id, step.by].join('.'), why, step)
    const pass = this.#passes.open.get(keyText(step.key))
    if (pass) pass.journal = next(pass.journal, step, this.#options).journal
    else this.#beforeFirst.set(keyText(step.key), step.sequence)
  }

  #untrusted(what: string, why: string, fact: Found): void {
    this.#find('remark', { rule: 'trust', what: `${what} is not trusted: ${why}` }, fact)
  }

  /** Marks a pass as erased if an entry was erased since its request that may have belonged to it. */
  #noteErased(pass: PassState, { request, sequence }: Step): void {
    const since = pass.steps[0]?.request ?? pass.steps[0]?.sequence ?? request ?? sequence
    if (this.#erasures.namelessSince(since)) pass.erased = true
  }

  /** Begins a pass with its first step. Returns `undefined` if the pass cannot be judged. */
  #begin(recorded: RecordedMessage, step: Step): PassState | undefined {
    if (this.#passes.hasEnded(step.key)) {
      // After a pass is deleted from the stream, a request for it is answered as expired. Every reader ignores other steps.
      const expired = step.kind === 'return' && step.by === SYSTEM && step.code === 'E005'
      if (expired) this.#takeAnswered(step)
      else this.#find('remark', { rule: 'one_return', what: `a ${step.kind} after the return: readers ignore it` }, step)
      return undefined
    }
    const before = guardedBefore(step)
    const isFirst = before === 0 || this.#beforeFirst.get(keyText(step.key)) === before
    const unseen = !isFirst && this.#erasures.unseen(before)
    if (!isFirst && !unseen) {
      this.#find('fault', { rule: 'journal', what: `comes after step ${before} of its pass, which is missing` }, step)
      return undefined
    }
    this.counts.passes++
    if (!unseen || step.kind !== 'return') {
      const pass = this.#passes.begin(step, unseen)
      if (!unseen) pass.journal = { ...EMPTY_JOURNAL, last: before }
      return pass
    }
    this.#options.onCounted?.(recorded)
    this.#passes.forget(step.key)
    return undefined
  }

  #first(recorded: RecordedMessage, step: Step, pass: PassState): void {
    setFrame(pass, recorded, step)
    const asked = this.#takeAnswered(step)
    if (pass.partial) return
    if (!asked) {
      const named = requestNamed(step)?.sequence
      if (named === undefined) this.#find('fault', { rule: 'journal', what: `a ${step.kind} that answers no request` }, step)
      else if (!this.#erasures.unseen(named))
        this.#find('fault', { rule: 'digest', what: `answers request ${named}, which is missing` }, step)
    } else {
      this.counts.digests++
      const named = parentNamedBy(pass, asked)
      const parent = this.#parent(named)
      const { id_window_ms, onBegin } = this.#options
      const versions = this.#versions
      const beginning: FirstStep = {
        recorded,
        step,
        asked,
        pass,
        parent: known(parent),
        parent_unseen: parent === 'unseen',
        versions,
        id_window_ms,
      }
      onBegin?.(beginning)
      const judged = judgeBeginning(beginning)
      if (judged.kind === 'fault') this.#find('fault', judged.objection, step)
      else if (judged.kind === 'recomputed') this.counts.recomputed++
      else this.counts.as_recorded++
    }
    if (pass.control) this.#ancestry(step, pass)
  }

  #ancestry(step: Step, pass: PassState): void {
    const { control } = pass
    if (!control) return
    const what = ancestryFault(control, step, this.#parent(control.parent && { key: control.parent, proof: control.proof }))
    if (what !== undefined) this.#find('fault', { rule: 'ancestry', what }, step)
  }

  #parent(named: ParentNamed | undefined): PassState | 'unseen' | undefined {
    return named && parentOf(named, this.#passes, this.#erasures)
  }

  #afterHold(recorded: RecordedMessage, step: Step, pass: PassState): void {
    setFrame(pass, recorded, step)
    const { journal } = pass
    if (pass.partial || journal.state !== 'open' || !journal.held) return
    this.counts.decisions++
    const what = dispatchFault(pass, journal.held, this.#versions) ?? heldDiffers(pass)
    if (what !== undefined) this.#find('fault', { rule: 'approval', what }, step)
  }

  #ends(recorded: RecordedMessage, step: Step, { pass, before }: { pass: PassState; before: JournalState }): void {
    this.counts.returns++
    this.counts.ended++
    const judged: Returned = before.state === 'none' ? { whole: true } : judgeReturn(recorded, step, { ...pass, journal: before })
    if (judged.fault !== undefined && !pass.partial) this.#find('fault', { rule: 'return', what: judged.fault }, step)
    if (judged.remark !== undefined) this.#find('remark', { rule: 'return', what: judged.remark }, step)
    const parts = recorded.partFault(partsIn(recorded))
    if (parts !== undefined) this.#find(step.by === SYSTEM ? 'fault' : 'remark', { rule: 'parts', what: parts }, step)
    pass.output = judged.output
    pass.whole = judged.whole
    if (pass.output?.artifacts.some(({ type }) => type === 'file_modification')) pass.return_digest = recorded.digest()
    this.#passes.end(pass)
  }

  #event(recorded: RecordedMessage, fact: EventFact): void {
    const { key, kind, sender } = fact
    if (kind === 'cancel' && (sender !== key.subagent || sender === key.originator)) this.#passes.cancel(fact)
    const pass = this.#passes.find(key)
    if (kind === 'violation' && sender === SYSTEM) {
      const { sequence } = bodyOf(recorded)
      if (typeof sequence === 'number') pass?.violated.push(sequence)
    }
    if (kind !== 'applied' || !pass || sender === key.subagent) return
    const [first] = pass.steps
    if (first) this.#noteErased(pass, first)
    const parsed = appliedBody.safeParse(recorded.body())
    if (!parsed.success) return
    this.counts.decisions++
    const what = appliedFault(pass, parsed.data)
    if (what !== undefined) this.#find('fault', { rule: 'approval', what }, fact)
    const undone = sender === SYSTEM ? undefined : undoneRemark(pass, sender, parsed.data)
    if (undone !== undefined) this.#find('remark', { rule: 'approval', what: undone }, fact)
  }

  #version(recorded: RecordedMessage): void {
    if (recorded.version === 'agent') this.#versions.agent(recorded)
    if (recorded.version === 'custody') this.#erasures.take(recorded)
    if (recorded.version !== 'policy') return
    this.counts.policies++
    const { fault, remark } = this.#versions.policy(recorded)
    if (fault !== undefined) this.#find('fault', { rule: 'policy', what: fault }, recorded.fact)
    if (remark !== undefined) this.#find('remark', { rule: 'policy', what: remark }, recorded.fact)
  }

  #takeAnswered(step: Step): RequestState | undefined {
    return this.#passes.takeAnswered(step, (fact) => answersRequest(step, fact))
  }

  #find(severity: VerifyFinding['severity'], { rule, what }: RuleViolation, fact: Found): void {
    const by = writerOf(fact)
    this.#options.onFinding({
      severity,
      rule,
      what,
      sequence: fact.sequence,
      ...(fact.key && { key: fact.key }),
      ...(by !== undefined && { by }),
    })
  }
}

interface Found {
  sequence: number
  key?: PassKey
  kind?: string
  by?: string
  sender?: string
  originator?: string
}

/**
 * Returns the agent or person who wrote a message, or `undefined` for a service. Work and held steps are written by a service: their `by` names a
 * priority or the system.
 */
function writerOf({ kind, by, sender, originator }: Found): string | undefined {
  const writer = kind === 'work' || kind === 'held' ? undefined : (by ?? sender ?? originator)
  return writer === SYSTEM ? undefined : writer
}
