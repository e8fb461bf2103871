import type { EventKind, Fact, PassKey, Priority, StepKind } from '@passover/schemas'
import { STEP_KINDS, SYSTEM } from '@passover/schemas'
import { distrust, type Published } from '../wire/message-origin.js'
import type { Guard, StoredMessage } from '../wire/messages.js'
import { factOf, guardOf, type ParsedSubject } from './subject-facts.js'
import { ID, ID_HEAD, ITEM, NAME, parseSubject, UNKNOWN } from './subject-parser.js'

const PREFIX = /^[A-Za-z0-9_-]{1,64}(?:\.[A-Za-z0-9_-]{1,64}){0,3}$/
const CONSUMER = /^[A-Za-z0-9_-]{1,200}$/
const ADVISORY = '$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES'
/** Number of digits in a refusal's id, which must be long enough for the split of `returned` subjects. */
const BAD_DIGITS = 9

/** `C`: chunks, followed by token and number; `M`: metadata, followed by the token. */
export type PartSubject = 'C' | 'M'

function checked(pattern: RegExp, what: string, token: string): string {
  if (!pattern.test(token)) throw new TypeError(`not ${what}: ${JSON.stringify(token.slice(0, 80))}`)
  return token
}
const name = (token: string) => checked(NAME, 'a name', token)

/**
 * Builds and parses all subjects, and the names of stream, consumers and buckets (docs/architecture/protocol.md#subjects). Builders throw a TypeError
 * for a token that could change a subject's meaning; the parser returns `unknown`.
 */
export class Subjects {
  /** Prefix of all subjects with its final dot, or empty. */
  readonly prefix: string
  readonly stream: string

  constructor(prefix?: string, stream?: string) {
    const space = prefix ? checked(PREFIX, 'a prefix', prefix) : ''
    this.prefix = space ? `${space}.` : ''
    this.stream = checked(CONSUMER, 'a stream name', stream ?? (space ? `PASSOVER_${space.replaceAll('.', '_')}` : 'PASSOVER'))
  }

  request(subagent: string, originator: string): string {
    return `${this.prefix}request.${name(subagent)}.${name(originator)}`
  }
  held(key: PassKey): string {
    return this.step('held', key, SYSTEM)
  }
  work(key: PassKey, priority: Priority): string {
    return this.step('work', key, priority)
  }
  fence(key: PassKey, worker: string): string {
    return this.step('fence', key, worker)
  }
  /** `sender`: the worker, or `passover`. */
  return(key: PassKey, sender: string): string {
    return this.step('return', key, sender)
  }
  step(kind: StepKind, key: PassKey, by: string): string {
    return `${this.prefix}${kind}.${this.#key(key)}.${name(by)}`
  }
  decision(key: PassKey, item: string, person: string): string {
    return `${this.prefix}decision.${this.#key(key)}.${checked(ITEM, 'an item', item)}.${name(person)}`
  }
  event(key: PassKey, kind: EventKind, sender: string): string {
    return `${this.prefix}event.${this.#key(key)}.${kind}.${name(sender)}`
  }
  acknowledged(originator: string): string {
    return `${this.prefix}acknowledged.${name(originator)}`
  }
  policy(person: string): string {
    return `${this.prefix}policy.${name(person)}`
  }
  agent(person: string): string {
    return `${this.prefix}agent.${name(person)}`
  }
  /** Subject of holds and erasures; with `passover`, of the audit service's records about them. */
  custody(person: string): string {
    return `${this.prefix}custody.${name(person)}`
  }
  decided(originator: string): string {
    return `${this.prefix}decided.${name(originator)}`
  }
  ask(asker: string): string {
    return `${this.prefix}ask.${name(asker)}`
  }
  register(agent: string): string {
    return `${this.prefix}register.${name(agent)}`
  }
  returned(key: PassKey, by: string): string {
    return `${this.prefix}returned.${name(key.originator)}.${this.#split(key.id)}.${name(key.subagent)}.${name(by)}`
  }

  /** Filter for all steps of a pass's journal, used by guards and leader reads. */
  journal(key: PassKey): string {
    return `${this.prefix}*.${this.#key(key)}.*`
  }
  decisions(key: PassKey, item?: string): string {
    return `${this.prefix}decision.${this.#key(key)}.${item === undefined ? '>' : `${checked(ITEM, 'an item', item)}.*`}`
  }
  eventsOf(key: PassKey, kind: EventKind): string {
    return `${this.prefix}event.${this.#key(key)}.${kind}.*`
  }
  events(key: PassKey): string {
    return `${this.prefix}event.${this.#key(key)}.>`
  }
  /** Filter for all messages of one kind, for readers of the stream. */
  all(kind: StepKind | 'request' | 'decision' | 'event' | 'acknowledged' | 'policy' | 'agent' | 'custody'): string {
    const wild = {
      request: 2,
      decision: 5,
      event: 5,
      acknowledged: 1,
      policy: 1,
      agent: 1,
      custody: 1,
      held: 4,
      work: 4,
      fence: 4,
      return: 4,
    }[kind]
    return `${this.prefix}${kind}${'.*'.repeat(wild)}`
  }
  allDecisions(item: string): string {
    return `${this.prefix}decision.*.*.*.${checked(ITEM, 'an item', item)}.*`
  }
  allEvents(kind: EventKind): string {
    return `${this.prefix}event.*.*.*.${kind}.*`
  }
  allWork(subagent: string, priority: Priority): string {
    return `${this.prefix}work.*.${name(subagent)}.*.${priority}`
  }
  advisories(): string {
    return `${ADVISORY}.${this.stream}.*`
  }
  /** Filter for the returns to one SDK process (the 8-character prefix of its ids) or for one id. */
  returnedTo(originator: string, prefixOrId: string): string {
    const token = checked(/^[A-Za-z0-9_-]{4,64}$/, 'an id', prefixOrId)
    return `${this.prefix}returned.${name(originator)}.${token.length === ID_HEAD ? token : this.#split(token)}.>`
  }
  /** Filters for the steps that can come before the work, or between the work and its return. */
  detours(originator: string): string[] {
    return (['held', 'fence'] as const).map((kind) => `${this.prefix}${kind}.${name(originator)}.*.*.*`)
  }
  /** Filter for system returns of passes that a subagent works on. */
  endings(subagent: string): string {
    return `${this.prefix}returned.*.*.*.${name(subagent)}.${SYSTEM}`
  }
  service(service: 'ask' | 'register', who = '*'): string {
    return `${this.prefix}${service}.${who === '*' ? who : name(who)}`
  }

  /** Builds a filter over one kind of subject for permissions. `*` and a final `>` are wildcards. */
  pattern(
    kind: StepKind | 'request' | 'decision' | 'event' | 'acknowledged' | 'policy' | 'agent' | 'decided' | 'returned',
    ...tokens: string[]
  ): string {
    const safe = tokens.map((token, at) => (token === '*' || (token === '>' && at === tokens.length - 1) ? token : name(token)))
    return `${this.prefix}${[kind, ...safe].join('.')}`
  }

  /** Returns the subjects of the stream. At the high-water mark only `request` is removed. */
  streamSubjects(): string[] {
    const kinds = [...STEP_KINDS, 'request', 'decision', 'event', 'acknowledged', 'policy', 'agent', 'custody'] as const
    return [...kinds.map((kind) => this.all(kind)), this.advisories()]
  }
  /** Republish rule: stored returns are sent to the processes that wait for them. */
  republish(): { src: string; dest: string } {
    const dest = `${this.prefix}returned.{{wildcard(1)}}.{{splitfromleft(3,${ID_HEAD})}}.{{wildcard(2)}}.{{wildcard(4)}}`
    return { src: this.all('return'), dest }
  }

  /** Returns the id under which a malformed request is answered. */
  badId(sequence: number): string {
    return `bad-${String(sequence).padStart(BAD_DIGITS, '0')}`
  }
  bucket(bucket: string): string {
    checked(CONSUMER, 'a bucket', bucket)
    return this.prefix ? `${this.prefix.slice(0, -1).replaceAll('.', '_')}_${bucket}` : bucket
  }
  partsBucket(agent: string): string {
    return this.bucket(`parts_${name(agent)}`)
  }
  /**
   * Returns the subject of an agent's large parts, without the last tokens. The agent is a separate token, so that one wildcard (`*`) reads the parts
   * of all agents and of no other bucket.
   */
  parts(agent: string, what: PartSubject): string {
    return `$O.${this.bucket('parts')}.${agent === '*' ? agent : name(agent)}.${what}`
  }
  /** Returns the subject under which earlier versions stored the parts. */
  earlierParts(agent: string, what: PartSubject): string {
    return `$O.${this.partsBucket(agent)}.${what}`
  }
  /** Name of the durable consumer that keeps the returns to an agent until it takes them. */
  returnsConsumer(agent: string): string {
    return `returns_${name(agent)}`
  }
  allReturns(originator: string): string {
    return `${this.prefix}return.${name(originator)}.*.*.*`
  }
  workConsumer(agent: string, priority: Priority): string {
    return `work_${name(agent)}_${priority}`
  }

  parse(subject: string): ParsedSubject {
    if (subject.startsWith(ADVISORY)) {
      const consumer = subject.slice(ADVISORY.length + this.stream.length + 2)
      const ours = subject === `${ADVISORY}.${this.stream}.${consumer}` && CONSUMER.test(consumer)
      return ours ? { kind: 'advisory', consumer } : UNKNOWN
    }
    if (!subject.startsWith(this.prefix)) return UNKNOWN
    return parseSubject(subject, this.prefix.length)
  }

  /** Extracts what a headers-only reader needs of a stored message. Malformed headers are left out, never thrown. */
  toFact(stored: StoredMessage): Fact {
    return factOf(this.parse(stored.subject), stored, this.prefix)
  }

  /** Parses the subject of a stored message. Returns `unknown` also if the message is not trusted (see `wire/message-origin.ts`). */
  parseTrusted(stored: Published & { subject: string }): ParsedSubject {
    const parsed = this.parse(stored.subject)
    return distrust(parsed.kind, stored) === undefined ? parsed : UNKNOWN
  }

  /** Returns true if a client published the stored message, whatever its subject. */
  isTrusted(stored: Published & { subject: string }): boolean {
    return distrust(this.parse(stored.subject).kind, stored) === undefined
  }

  /** Returns only the guard of a step. */
  guardOf(stored: StoredMessage): Guard | undefined {
    return guardOf(stored.headers, stored.subject, this.prefix)
  }

  #key(key: PassKey): string {
    return `${name(key.originator)}.${name(key.subagent)}.${checked(ID, 'an id', key.id)}`
  }

  /** Splits an id like the server's `splitfromleft`: ids up to 8 characters stay whole. */
  #split(id: string): string {
    return id.length > ID_HEAD ? `${id.slice(0, ID_HEAD)}.${id.slice(ID_HEAD)}` : id
  }
}

/** Returns the sequence of the malformed request answered under such an id, or `undefined` for any other id. No message of that pass is older. */
export function sequenceOfBad(id: string): number | undefined {
  const digits = /^bad-(\d{1,16})$/.exec(id)?.[1]
  return digits === undefined ? undefined : Number(digits)
}

/** Returns the prefix of an identity's inboxes. */
export function inboxPrefixOf(identity: string): string {
  return `_INBOX_${identity}`
}
