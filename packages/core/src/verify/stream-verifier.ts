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
  /** The first sequence that is read: what lies before it is not known. 1: everything. */
  from: number
  /** Only some passes are read, whole, and of the versions only those that they name. */
  selection?: boolean | undefined
  /** How much later than its deadline a pass may have no return yet, as what is read ends: services may be down just then. */
  slack_ms?: number
  onFinding(finding: VerifyFinding): void
  /** Called with each step that readers believe. Not called with those that they pass over. */
  onCounted?: ((recorded: RecordedMessage) => void) | undefined
  /** Told of each request and of the first step that answers it. */
  onBegin?: ((beginning: FirstStep) => void) | undefined
}

const SLACK_MS = 60_000
const UNTRUSTED_KEPT = 10_000

/**
 * Judges everything stored, in order, by the rules alone (P1 to P5): it takes nothing from what the services keep besides. Memory is bounded by what is
 * open: of a pass that ended only its name is remembered, and of the newest a little more.
 */
export class StreamVerifier {
  readonly counts: VerifyCounts = { ...NO_COUNTS }
  private readonly book = new PassRegistry()
  private readonly erasures: Erasures
  private readonly versions: VersionHistory
  /** Of passes that have not begun: the last step that counts for nothing. */
  private readonly beforeFirst = new RecentEntries<number>(UNTRUSTED_KEPT)
  private last = 0
  private time = 0

  constructor(private readonly options: VerifyOptions) {
    this.versions = new VersionHistory(options.from <= 1 && !options.selection)
    this.erasures = new Erasures(options.from)
  }

  /** Passes and requests that have no end yet. */
  get open(): number {
    return this.book.open.size + this.book.asking.size
  }

  add(recorded: RecordedMessage): void {
    const { fact } = recorded
    this.counts.messages++
    if (fact.sequence <= this.last) this.find('fault', { rule: 'journal', what: `comes after ${this.last}` }, fact)
    this.last = Math.max(this.last, fact.sequence)
    this.time = Math.max(this.time, fact.time)
    if (fact.type === 'request') {
      this.counts.requests++
      if (fact.untrusted !== undefined) this.untrusted(`the request of ${fact.originator} to ${fact.subagent}`, fact.untrusted, fact)
      this.book.ask(recorded, fact)
    } else if (fact.type === 'step') this.step(recorded, fact)
    else if (fact.type === 'decision') this.book.find(fact.key)?.decisions.push({ ...fact, body: recorded.body() })
    else if (fact.type === 'event') this.event(recorded, fact)
    else if (fact.type === 'untrusted') this.untrusted(fact.subject, fact.untrusted, fact)
    else this.version(recorded)
  }

  /** An entry of which only the digest is kept; of which pass it was, where that is known. */
  erased(entry: ErasedDigest, key?: PassKey): void {
    this.counts.messages++
    this.counts.erased++
    this.last = Math.max(this.last, entry.sequence)
    this.erasures.erased(entry, key ? 'named' : 'nameless')
    if (key) this.book.erase(key)
  }

  /** Entries that are kept no longer, as if they lay before what is read. */
  removed(range: { first: number; last: number }): void {
    this.last = Math.max(this.last, range.last)
    this.erasures.removed(range)
  }

  /** What had to be there by now (server ms; default: when the last message was stored) and is not. */
  finish(now = this.time): void {
    const { slack_ms = SLACK_MS, onFinding } = this.options
    for (const finding of overdue(this.book, { now, slack_ms, erasures: this.erasures })) onFinding(finding)
    for (const finding of this.erasures.missing()) onFinding(finding)
  }

  private step(recorded: RecordedMessage, step: Step): void {
    this.counts.steps++
    if (step.untrusted !== undefined) {
      this.untrustedStep(step, step.untrusted)
      return
    }
    const pass = this.book.open.get(keyText(step.key)) ?? this.begin(recorded, step)
    if (!pass) return
    this.noteErased(pass, step)
    const wrong = pass.partial ? undefined : guardFault(pass, step, this.erasures)
    if (wrong) this.find('fault', { rule: 'journal', what: wrong }, step)
    const before = pass.journal
    const { journal, ignored } = next(before, step, this.options)
    pass.journal = journal
    if (ignored !== undefined) {
      const rule: VerifyRule = step.kind === 'return' ? 'one_return' : 'journal'
      if (!pass.partial) this.find('remark', { rule, what: `${ignored}: every reader passes it over` }, step)
      else if (guardedBefore(step) > 0) this.options.onCounted?.(recorded)
      return
    }
    this.options.onCounted?.(recorded)
    pass.steps.push(step)
    pass.proofs.push(step.sequence)
    if (before.state === 'none') this.first(recorded, step, pass)
    else if (step.kind === 'work') this.afterHold(recorded, step, pass)
    if (step.kind === 'return') this.ends(recorded, step, { pass, before })
  }

  /** It counts for nothing, yet the next step's guard names it. */
  private untrustedStep(step: Step, why: string): void {
    const { originator, subagent, id } = step.key
    this.untrusted([step.kind, originator, subagent, id, step.by].join('.'), why, step)
    const pass = this.book.open.get(keyText(step.key))
    if (pass) pass.journal = next(pass.journal, step, this.options).journal
    else this.beforeFirst.set(keyText(step.key), step.sequence)
  }

  private untrusted(what: string, why: string, fact: Found): void {
    this.find('remark', { rule: 'trust', what: `${what} is not believed: ${why}` }, fact)
  }

  /** What was erased since it was asked for may have been of this pass. */
  private noteErased(pass: PassState, { request, sequence }: Step): void {
    const since = pass.steps[0]?.request ?? pass.steps[0]?.sequence ?? request ?? sequence
    if (this.erasures.namelessSince(since)) pass.erased = true
  }

  /** What a step of a pass that is not open begins; undefined: nothing can be said about it. */
  private begin(recorded: RecordedMessage, step: Step): PassState | undefined {
    if (this.book.hasEnded(step.key)) {
      // After it was deleted from the stream a request for it is answered as expired; anything else is passed over by every reader.
      const expired = step.kind === 'return' && step.by === SYSTEM && step.code === 'E005'
      if (expired) this.answered(step)
      else this.find('remark', { rule: 'one_return', what: `a ${step.kind} after the return: every reader passes it over` }, step)
      return undefined
    }
    const before = guardedBefore(step)
    const isFirst = before === 0 || this.beforeFirst.get(keyText(step.key)) === before
    const unseen = !isFirst && this.erasures.unseen(before)
    if (!isFirst && !unseen) {
      this.find('fault', { rule: 'journal', what: `comes after step ${before} of its pass, which is not here` }, step)
      return undefined
    }
    this.counts.passes++
    if (!unseen || step.kind !== 'return') {
      const pass = this.book.begin(step, unseen)
      if (!unseen) pass.journal = { ...EMPTY_JOURNAL, last: before }
      return pass
    }
    this.options.onCounted?.(recorded)
    this.book.forget(step.key)
    return undefined
  }

  private first(recorded: RecordedMessage, step: Step, pass: PassState): void {
    setFrame(pass, recorded, step)
    const asked = this.answered(step)
    if (pass.partial) return
    if (!asked) {
      const named = requestNamed(step)?.sequence
      if (named === undefined) this.find('fault', { rule: 'journal', what: `a ${step.kind} that answers no request` }, step)
      else if (!this.erasures.unseen(named))
        this.find('fault', { rule: 'digest', what: `answers request ${named}, which is not here` }, step)
    } else {
      this.counts.digests++
      const named = parentNamedBy(pass, asked)
      const parent = this.parent(named)
      const { id_window_ms, onBegin } = this.options
      const { versions } = this
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
      if (judged.kind === 'fault') this.find('fault', judged.objection, step)
      else if (judged.kind === 'recomputed') this.counts.recomputed++
      else this.counts.as_recorded++
    }
    if (pass.control) this.ancestry(step, pass)
  }

  private ancestry(step: Step, pass: PassState): void {
    const { control } = pass
    if (!control) return
    const what = ancestryFault(control, step, this.parent(control.parent && { key: control.parent, proof: control.proof }))
    if (what !== undefined) this.find('fault', { rule: 'ancestry', what }, step)
  }

  private parent(named: ParentNamed | undefined): PassState | 'unseen' | undefined {
    return named && parentOf(named, this.book, this.erasures)
  }

  private afterHold(recorded: RecordedMessage, step: Step, pass: PassState): void {
    setFrame(pass, recorded, step)
    const { journal } = pass
    if (pass.partial || journal.state !== 'open' || !journal.held) return
    this.counts.decisions++
    const what = dispatchFault(pass, journal.held, this.versions) ?? heldDiffers(pass)
    if (what !== undefined) this.find('fault', { rule: 'approval', what }, step)
  }

  private ends(recorded: RecordedMessage, step: Step, { pass, before }: { pass: PassState; before: JournalState }): void {
    this.counts.returns++
    this.counts.ended++
    const judged: Returned = before.state === 'none' ? { whole: true } : judgeReturn(recorded, step, { ...pass, journal: before })
    if (judged.fault !== undefined && !pass.partial) this.find('fault', { rule: 'return', what: judged.fault }, step)
    if (judged.remark !== undefined) this.find('remark', { rule: 'return', what: judged.remark }, step)
    const parts = recorded.partFault(partsIn(recorded))
    if (parts !== undefined) this.find(step.by === SYSTEM ? 'fault' : 'remark', { rule: 'parts', what: parts }, step)
    pass.output = judged.output
    pass.whole = judged.whole
    if (pass.output?.artifacts.some(({ type }) => type === 'file_modification')) pass.return_digest = recorded.digest()
    this.book.end(pass)
  }

  private event(recorded: RecordedMessage, fact: EventFact): void {
    const { key, kind, sender } = fact
    if (kind === 'cancel' && (sender !== key.subagent || sender === key.originator)) this.book.cancel(fact)
    const pass = this.book.find(key)
    if (kind === 'violation' && sender === SYSTEM) {
      const { sequence } = bodyOf(recorded)
      if (typeof sequence === 'number') pass?.violated.push(sequence)
    }
    if (kind !== 'applied' || !pass || sender === key.subagent) return
    const [first] = pass.steps
    if (first) this.noteErased(pass, first)
    const parsed = appliedBody.safeParse(recorded.body())
    if (!parsed.success) return
    this.counts.decisions++
    const what = appliedFault(pass, parsed.data)
    if (what !== undefined) this.find('fault', { rule: 'approval', what }, fact)
    const undone = sender === SYSTEM ? undefined : undoneRemark(pass, sender, parsed.data)
    if (undone !== undefined) this.find('remark', { rule: 'approval', what: undone }, fact)
  }

  private version(recorded: RecordedMessage): void {
    if (recorded.version === 'agent') this.versions.agent(recorded)
    if (recorded.version === 'custody') this.erasures.take(recorded)
    if (recorded.version !== 'policy') return
    this.counts.policies++
    const { fault, remark } = this.versions.policy(recorded)
    if (fault !== undefined) this.find('fault', { rule: 'policy', what: fault }, recorded.fact)
    if (remark !== undefined) this.find('remark', { rule: 'policy', what: remark }, recorded.fact)
  }

  private answered(step: Step): RequestState | undefined {
    return this.book.answered(step, (fact) => answersRequest(step, fact))
  }

  private find(severity: VerifyFinding['severity'], { rule, what }: RuleViolation, fact: Found): void {
    const by = writerOf(fact)
    this.options.onFinding({
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

/** The agent or person who wrote a message; undefined: a service did. Work steps name a slot there. */
function writerOf({ kind, by, sender, originator }: Found): string | undefined {
  const writer = kind === 'work' || kind === 'held' ? undefined : (by ?? sender ?? originator)
  return writer === SYSTEM ? undefined : writer
}
