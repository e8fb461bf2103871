import { type Bus, decode, type StoredMessage } from '@passover/bus'
import { oneLine } from '@passover/core'
import { type Fact, type Notice, type PassKey, SYSTEM } from '@passover/schemas'
import type { NameVerification } from '../audit/name-verification.js'

/** One event, as `watch` prints it. */
export interface PassEvent {
  sequence: number
  /** Time at which the server stored the event, in milliseconds since 1970. */
  time: number
  kind: string
  originator?: string
  subagent?: string
  id?: string
  by?: string
  /** True if a process claimed the name in `by` for a person and the installation does not verify names. */
  unverified?: true
  attempt?: number
  detail?: string
  /** For kind `notification`: the content, which is also the content of the webhook. */
  notice?: Notice
}

/** Kinds of events that only people publish, and kinds that originators publish too. */
const OF_PERSON: ReadonlySet<string> = new Set(['decision', 'policy', 'agent', 'settled'])
const OF_PERSON_OR_ORIGINATOR: ReadonlySet<string> = new Set(['cancel', 'applied'])

/**
 * Describes a stored message for a person. Returns `undefined` for a message that is not an event of a pass, such as an acknowledgment.
 *
 * @param names - Whether the installation verifies the names of people, from {@link askNameVerification}.
 */
export function describeEvent(
  stored: StoredMessage,
  fact: Fact,
  { subjects, names }: Pick<Bus, 'subjects'> & { names?: NameVerification | undefined },
): PassEvent | undefined {
  const event = readHappening(stored, fact, { subjects })
  return event && names?.unverified && isByPerson(event) ? { ...event, unverified: true } : event
}

function isByPerson({ kind, by, originator }: PassEvent): boolean {
  if (by === undefined || by === SYSTEM) return false
  return OF_PERSON.has(kind) || (OF_PERSON_OR_ORIGINATOR.has(kind) && by !== originator)
}

function readHappening(stored: StoredMessage, fact: Fact, bus: Pick<Bus, 'subjects'>): PassEvent | undefined {
  const base = { sequence: stored.sequence, time: stored.time }
  const of = (key: PassKey) => ({ ...base, originator: key.originator, subagent: key.subagent, id: key.id })
  switch (fact.type) {
    case 'request':
      return {
        ...base,
        kind: 'request',
        originator: fact.originator,
        subagent: fact.subagent,
        by: fact.originator,
        ...(fact.id ? { id: fact.id } : {}),
        ...detailOf(fact.untrusted),
      }
    case 'step':
      return {
        ...of(fact.key),
        kind: fact.kind,
        by: fact.by,
        ...(fact.attempt ? { attempt: fact.attempt } : {}),
        ...detailOf(fact.untrusted ?? fact.code ?? fact.status),
      }
    case 'decision':
      return { ...of(fact.key), kind: 'decision', by: fact.person, detail: `${fact.item} ${fact.verdict ?? '?'}` }
    case 'event':
      return { ...of(fact.key), kind: fact.kind, by: fact.sender, ...detailOf(messageIn(stored)) }
    case 'untrusted':
      return { ...(fact.key ? of(fact.key) : base), kind: 'untrusted', detail: `${fact.subject}: ${fact.untrusted}` }
    case 'advisory':
    case 'acknowledged':
      return undefined
    case 'other': {
      const parsed = bus.subjects.parse(stored.subject)
      if (parsed.kind !== 'agent' && parsed.kind !== 'policy') return undefined
      return { ...base, kind: parsed.kind, by: parsed.person, ...detailOf(subjectOfChange(stored)) }
    }
  }
}

function detailOf(detail: string | undefined): { detail?: string } {
  return detail === undefined ? {} : { detail: oneLine(detail, 300) }
}

/** Returns the text of an event that has one: progress, cancel, violation. */
function messageIn(stored: StoredMessage): string | undefined {
  const { message, reason, what } = bodyOf(stored)
  return [message, reason, what].find((text) => typeof text === 'string')
}

/** Returns which agent a change of the registry is about, or which version a policy has. */
function subjectOfChange(stored: StoredMessage): string | undefined {
  const { name, record, version } = bodyOf(stored)
  if (typeof name === 'string') return record === undefined ? `removal of ${name}` : `registration of ${name}`
  return typeof version === 'number' ? `version ${version}` : undefined
}

function bodyOf(stored: StoredMessage): Record<string, unknown> {
  const decoded = decode(stored.data, stored.headers.get('Content-Type'))
  return decoded.ok && typeof decoded.value === 'object' && decoded.value !== null ? (decoded.value as Record<string, unknown>) : {}
}
