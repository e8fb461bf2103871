import type { EventKind, Fact, PassKey, Slot, StepKind } from '@passover/schemas'
import { STEP_KINDS, SYSTEM } from '@passover/schemas'
import { distrust, type Published } from '../wire/message-origin.js'
import type { Guard, StoredMessage } from '../wire/messages.js'
import { factOf, guardOf, type ParsedSubject } from './subject-facts.js'
import { ID, ID_HEAD, ITEM, NAME, parseSubject, UNKNOWN } from './subject-parser.js'

const PREFIX = /^[A-Za-z0-9_-]{1,64}(?:\.[A-Za-z0-9_-]{1,64}){0,3}$/
const CONSUMER = /^[A-Za-z0-9_-]{1,200}$/
const ADVISORY = '$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES'
/** A refusal's id must be long enough for the split of `returned` subjects. */
const BAD_DIGITS = 9

/** `C`: chunks, followed by token and number; `M`: metadata, followed by the token. */
export type PartSubject = 'C' | 'M'

function checked(pattern: RegExp, what: string, token: string): string {
  if (!pattern.test(token)) throw new TypeError(`not ${what}: ${JSON.stringify(token.slice(0, 80))}`)
  return token
}
const name = (token: string) => checked(NAME, 'a name', token)

/**
 * The one builder and parser of subjects, and of the names of stream, consumers and buckets (docs/architecture/protocol.md#subjects).
 * Builders throw a TypeError for a token that could change a subject's meaning; the parser answers `unknown`.
 */
export class Subjects {
  /** With its dot, or empty. */
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
  work(key: PassKey, slot: Slot): string {
    return this.step('work', key, slot)
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
  /** Holds and erasures; by `passover`: what the audit did about them. */
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

  /** What a pass's guards and leader reads are about: all steps of its journal. */
  journal(key: PassKey): string {
    return `${this.prefix}*.${this.#key(key)}.*`
  }
  /** The timekeeper's last resort against a fencing worker: its returns alone. */
  returns(key: PassKey): string {
    return `${this.prefix}return.${this.#key(key)}.*`
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
  /** Everything of one kind, for readers of the stream. */
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
  allWork(subagent: string, slot: Slot): string {
    return `${this.prefix}work.*.${name(subagent)}.*.${slot}`
  }
  advisories(): string {
    return `${ADVISORY}.${this.stream}.*`
  }
  /** What one SDK process (prefix of its ids, 8 characters) or one given id listens to. */
  returnedTo(originator: string, prefixOrId: string): string {
    const token = checked(/^[A-Za-z0-9_-]{4,64}$/, 'an id', prefixOrId)
    return `${this.prefix}returned.${name(originator)}.${token.length === ID_HEAD ? token : this.#split(token)}.>`
  }
  /** The steps that may stand between an originator's work and its first return, or before the work. */
  detours(originator: string): string[] {
    return (['held', 'fence'] as const).map((kind) => `${this.prefix}${kind}.${name(originator)}.*.*.*`)
  }
  /** What a worker listens to: the system's endings of passes that it works on. */
  endings(subagent: string): string {
    return `${this.prefix}returned.*.*.*.${name(subagent)}.${SYSTEM}`
  }
  service(service: 'ask' | 'register', who = '*'): string {
    return `${this.prefix}${service}.${who === '*' ? who : name(who)}`
  }

  /** A filter over one kind of subject, `*` and a last `>` standing for any tokens: what permissions are made of. */
  pattern(
    kind: StepKind | 'request' | 'decision' | 'event' | 'acknowledged' | 'policy' | 'agent' | 'decided' | 'returned',
    ...tokens: string[]
  ): string {
    const safe = tokens.map((token, at) => (token === '*' || (token === '>' && at === tokens.length - 1) ? token : name(token)))
    return `${this.prefix}${[kind, ...safe].join('.')}`
  }

  /** The stream's subjects. `request` alone is taken out at the high-water mark. */
  streamSubjects(): string[] {
    const kinds = [...STEP_KINDS, 'request', 'decision', 'event', 'acknowledged', 'policy', 'agent', 'custody'] as const
    return [...kinds.map((kind) => this.all(kind)), this.advisories()]
  }
  /** Stored returns are republished for those who wait. */
  republish(): { src: string; dest: string } {
    const dest = `${this.prefix}returned.{{wildcard(1)}}.{{splitfromleft(3,${ID_HEAD})}}.{{wildcard(2)}}.{{wildcard(4)}}`
    return { src: this.all('return'), dest }
  }

  /** The id under which a malformed request is answered. */
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
   * Subjects of an agent's large parts, without their last tokens. The agent is a token of its own, so that one wildcard (`*`) reads the
   * parts of all agents and of no other bucket.
   */
  parts(agent: string, what: PartSubject): string {
    return `$O.${this.bucket('parts')}.${agent === '*' ? agent : name(agent)}.${what}`
  }
  /** The same as earlier versions stored them. */
  earlierParts(agent: string, what: PartSubject): string {
    return `$O.${this.partsBucket(agent)}.${what}`
  }
  /** Of an agent that asks for delivery: the returns to it, until it took them. */
  returnsConsumer(agent: string): string {
    return `returns_${name(agent)}`
  }
  allReturns(originator: string): string {
    return `${this.prefix}return.${name(originator)}.*.*.*`
  }
  workConsumer(agent: string, slot: Slot): string {
    return `work_${name(agent)}_${slot}`
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

  /** What a headers-only reader knows of a stored message. Hostile headers are left out, never thrown at. */
  toFact(stored: StoredMessage): Fact {
    return factOf(this.parse(stored.subject), stored, this.prefix)
  }

  /** What a stored message is; `unknown` also where it is not believed (see `wire/message-origin.ts`). */
  parseTrusted(stored: Published & { subject: string }): ParsedSubject {
    const parsed = this.parse(stored.subject)
    return distrust(parsed.kind, stored) === undefined ? parsed : UNKNOWN
  }

  /** Whether a client published a stored message, whatever its subject says. */
  isTrusted(stored: Published & { subject: string }): boolean {
    return distrust(this.parse(stored.subject).kind, stored) === undefined
  }

  /** Its guard alone, for who needs no more of a step. */
  guardOf(stored: StoredMessage): Guard | undefined {
    return guardOf(stored.headers, stored.subject, this.prefix)
  }

  #key(key: PassKey): string {
    return `${name(key.originator)}.${name(key.subagent)}.${checked(ID, 'an id', key.id)}`
  }

  /** As the server's `splitfromleft` does it: shorter ids stay whole. */
  #split(id: string): string {
    return id.length > ID_HEAD ? `${id.slice(0, ID_HEAD)}.${id.slice(ID_HEAD)}` : id
  }
}

/** The malformed request that is answered under such an id: nothing of it is older. Undefined: it is another id. */
export function sequenceOfBad(id: string): number | undefined {
  const digits = /^bad-(\d{1,16})$/.exec(id)?.[1]
  return digits === undefined ? undefined : Number(digits)
}

/** Where an identity's replies come in. */
export function inboxPrefixOf(identity: string): string {
  return `_INBOX_${identity}`
}
