import type { StoredMessage } from '@passover/bus'
import { EMPTY_JOURNAL, type JournalRules, type JournalState, next, type SchemaVerdict } from '@passover/core'
import { type DecisionFact, type EventFact, type Fact, HEADER, type PassKey, type Step } from '@passover/schemas'
import { type DecodedFrame, decodeControlFrame } from './control-frame.js'

/** A recorded message of a pass: what its subject and headers say, and of its body the bytes that the record needs. */
export interface NotedMessage {
  fact: Step | DecisionFact | EventFact
  body: Uint8Array
  /** Of held and work: the control frame, and then no body. */
  framed: DecodedFrame | undefined
  content_type: string | undefined
}

/** A step that the fold ignores. */
export interface ImpossibleStep {
  sequence: number
  what: string
}

/** The request that a refusal answers: no control frame tells about it. */
export interface RequestNote {
  originator: string
  subagent: string
  sequence: number
  time: number
  /** As a header, or else the body, says. */
  id: string | undefined
  body: Uint8Array | undefined
  content_type: string | undefined
}

const COPY_BYTES = 16 * 1024
/** Of a pass that somebody makes endless only what counts in its journal is noted beyond so many; and bodies besides the journal's up to so much. */
export const MAX_NOTED = 1_024
const MAX_BODIES = 4 * 1024 * 1024
/** Besides steps, the messages whose bodies the record repeats. */
const SAYS_MORE: ReadonlySet<string> = new Set(['decision', 'started', 'applied', 'settled', 'violation'])
const NO_BODY = new Uint8Array()

/**
 * What the audit remembers of one pass: its messages without their parts, and what they amount to by the one fold (core.next). Messages come
 * in sequence order; progress is not kept, since nothing of it is recorded.
 */
export class PassMemory {
  journal: JournalState = EMPTY_JOURNAL
  readonly noted: NotedMessage[] = []
  readonly ignored: ImpossibleStep[] = []
  request: RequestNote | undefined
  /** What its output_schema has against its output, once it was applied. */
  schema_faults: readonly string[] | undefined
  /** Why it was not applied. */
  schema_unchecked: string | undefined
  /** Bytes of bodies held. */
  bytes = 0
  /** Sequence and time of the first message. */
  first = 0
  begun = 0
  /** Sequence of the last message that the record speaks of. */
  last = 0

  constructor(readonly key: PassKey) {}

  /** A pass of which only the request is known. */
  static of(key: PassKey, request: RequestNote): PassMemory {
    const memory = new PassMemory(key)
    memory.request = request
    return memory
  }

  get ended(): boolean {
    return this.journal.state === 'done'
  }

  /** Notes what its output_schema has against its output, or that it was not applied. */
  judge(verdict: SchemaVerdict): void {
    this.schema_faults = 'faults' in verdict ? verdict.faults : []
    this.schema_unchecked = 'unchecked' in verdict ? verdict.unchecked : undefined
  }

  /** Adds a message that came after all others; returns why it is impossible, if it is a step that the fold ignores (and not one of too many). */
  add(stored: StoredMessage, fact: Step | DecisionFact | EventFact, rules: JournalRules): string | undefined {
    if (stored.sequence <= this.last || !isRecorded(fact)) return undefined
    if (this.first === 0) {
      this.first = stored.sequence
      this.begun = stored.time
    }
    this.last = stored.sequence
    if (fact.type !== 'step') {
      if (this.noted.length < MAX_NOTED) this.note(stored, fact, SAYS_MORE.has(fact.type === 'event' ? fact.kind : fact.type))
      return undefined
    }
    const { journal, ignored } = next(this.journal, fact, rules)
    this.journal = journal
    if (ignored === undefined) this.note(stored, fact, fact.kind !== 'fence')
    else if (this.noted.length < MAX_NOTED) {
      this.note(stored, fact, false)
      this.ignored.push({ sequence: fact.sequence, what: ignored })
      return ignored
    }
    return undefined
  }

  private note(stored: StoredMessage, fact: NotedMessage['fact'], says: boolean): void {
    const framed = says && fact.type === 'step' && fact.kind !== 'return' ? decodeControlFrame(stored.data) : undefined
    const room = fact.type === 'step' || this.bytes + stored.data.length <= MAX_BODIES
    const body = framed || !says || !room ? NO_BODY : kept(stored.data)
    this.bytes += (framed ?? body).length
    this.noted.push({ fact, body, framed, content_type: stored.headers.get(HEADER.contentType) })
  }

  /** The first body of a kind of step, the one that counts in the journal. */
  step(kind: 'held' | 'work' | 'return'): NotedMessage | undefined {
    const { journal } = this
    const step =
      kind === 'return' ? (journal.state === 'done' ? journal.return : undefined) : kind in journal ? journalStep(journal, kind) : undefined
    return step && this.noted.find((noted) => noted.fact.sequence === step.sequence)
  }
}

function journalStep(journal: JournalState, kind: 'held' | 'work'): Step | undefined {
  if (journal.state === 'none') return undefined
  if (kind === 'held') return journal.held
  return journal.state === 'held' ? undefined : journal.work
}

/** Whether the record speaks of it: progress comes and goes. */
export function isRecorded(fact: Fact): fact is Step | DecisionFact | EventFact {
  return fact.type === 'step' || fact.type === 'decision' || (fact.type === 'event' && fact.kind !== 'progress')
}

/** Small bodies are copied, so that they do not keep the chunk alive that they came in. */
function kept(body: Uint8Array): Uint8Array {
  return body.length < COPY_BYTES ? Buffer.from(body) : body
}
