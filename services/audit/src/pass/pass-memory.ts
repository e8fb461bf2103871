import type { StoredMessage } from '@passover/bus'
import { EMPTY_JOURNAL, type JournalRules, type JournalState, next, type SchemaVerdict } from '@passover/core'
import { type DecisionFact, type EventFact, type Fact, HEADER, type PassKey, type Step } from '@passover/schemas'
import { type DecodedFrame, decodeControlFrame } from './control-frame.js'

/** A recorded message of a pass: the content of its subject and headers, and the bytes of its body that the record needs. */
export interface NotedMessage {
  fact: Step | DecisionFact | EventFact
  body: Uint8Array
  /** Control frame of a held or work step. `body` is empty if it is set. */
  framed: DecodedFrame | undefined
  content_type: string | undefined
}

/** A step that the fold ignores. */
export interface ImpossibleStep {
  sequence: number
  what: string
}

/** The request that a refusal answers. A refused pass has no control frame, so its record is built from the request. */
export interface RequestNote {
  originator: string
  subagent: string
  sequence: number
  time: number
  /** Id from the header or, without one, from the body. */
  id: string | undefined
  body: Uint8Array | undefined
  content_type: string | undefined
}

const COPY_BYTES = 16 * 1024
/**
 * Limits for passes to which a party adds messages without end. After `MAX_NOTED` messages only steps that count in the journal are noted. Bodies of
 * events and decisions are kept only while all bodies together stay within `MAX_BODIES` bytes.
 */
export const MAX_NOTED = 1_024
const MAX_BODIES = 4 * 1024 * 1024
/** Kinds of messages besides steps whose bodies the record contains. */
const SAYS_MORE: ReadonlySet<string> = new Set(['decision', 'started', 'applied', 'settled', 'violation'])
const NO_BODY = new Uint8Array()

/**
 * The audit's memory of one pass: its messages without their parts, and the journal folded from them (core.next). Messages must be added in sequence
 * order. Progress is not kept, because the record does not contain it.
 */
export class PassMemory {
  journal: JournalState = EMPTY_JOURNAL
  readonly noted: NotedMessage[] = []
  readonly ignored: ImpossibleStep[] = []
  request: RequestNote | undefined
  /** Faults of the output against its output_schema, once it was validated. */
  schema_faults: readonly string[] | undefined
  /** Reason why the output was not validated. */
  schema_unchecked: string | undefined
  /** Bytes of bodies in memory. */
  bytes = 0
  /** Sequence and time of the first message. */
  first = 0
  begun = 0
  /** Sequence of the last message that the record covers. */
  last = 0

  constructor(readonly key: PassKey) {}

  /** Creates the memory of a pass of which only the request is known. */
  static of(key: PassKey, request: RequestNote): PassMemory {
    const memory = new PassMemory(key)
    memory.request = request
    return memory
  }

  get ended(): boolean {
    return this.journal.state === 'done'
  }

  /** Stores the result of validating the output against its output_schema. */
  judge(verdict: SchemaVerdict): void {
    this.schema_faults = 'faults' in verdict ? verdict.faults : []
    this.schema_unchecked = 'unchecked' in verdict ? verdict.unchecked : undefined
  }

  /** Adds the next message. If it is a step that the fold ignores, returns the reason, unless more than MAX_NOTED messages were noted. */
  add(stored: StoredMessage, fact: Step | DecisionFact | EventFact, rules: JournalRules): string | undefined {
    if (stored.sequence <= this.last || !isRecorded(fact)) return undefined
    if (this.first === 0) {
      this.first = stored.sequence
      this.begun = stored.time
    }
    this.last = stored.sequence
    if (fact.type !== 'step') {
      if (this.noted.length < MAX_NOTED) this.#note(stored, fact, SAYS_MORE.has(fact.type === 'event' ? fact.kind : fact.type))
      return undefined
    }
    const { journal, ignored } = next(this.journal, fact, rules)
    this.journal = journal
    if (ignored === undefined) this.#note(stored, fact, fact.kind !== 'fence')
    else if (this.noted.length < MAX_NOTED) {
      this.#note(stored, fact, false)
      this.ignored.push({ sequence: fact.sequence, what: ignored })
      return ignored
    }
    return undefined
  }

  #note(stored: StoredMessage, fact: NotedMessage['fact'], says: boolean): void {
    const framed = says && fact.type === 'step' && fact.kind !== 'return' ? decodeControlFrame(stored.data) : undefined
    const room = fact.type === 'step' || this.bytes + stored.data.length <= MAX_BODIES
    const body = framed || !says || !room ? NO_BODY : kept(stored.data)
    this.bytes += (framed ?? body).length
    this.noted.push({ fact, body, framed, content_type: stored.headers.get(HEADER.contentType) })
  }

  /** Returns the step of a kind that counts in the journal. */
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

/** True if the record covers the message. Progress is not recorded. */
export function isRecorded(fact: Fact): fact is Step | DecisionFact | EventFact {
  return fact.type === 'step' || fact.type === 'decision' || (fact.type === 'event' && fact.kind !== 'progress')
}

/** Copies small bodies, so that the chunk in which they arrived can be freed. */
function kept(body: Uint8Array): Uint8Array {
  return body.length < COPY_BYTES ? Buffer.from(body) : body
}
