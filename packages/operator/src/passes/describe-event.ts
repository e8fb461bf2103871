import { type Bus, decode, type StoredMessage } from '@passover/bus'
import { oneLine } from '@passover/core'
import { type Fact, type Notice, type PassKey, SYSTEM } from '@passover/schemas'
import type { NameVerification } from '../audit/name-verification.js'

/** One thing that happened, as `watch` prints it. */
export interface PassEvent {
  sequence: number
  /** Server ms. */
  time: number
  kind: string
  originator?: string
  subagent?: string
  id?: string
  by?: string
  /** `by` is the name that a process claimed for a person: the installation checks none. */
  unverified?: true
  attempt?: number
  detail?: string
  /** Of kind `notification`: what a webhook gets, too. */
  notice?: Notice
}

/** Kinds that a person publishes; of the second set, an originator may too. */
const OF_PERSON: ReadonlySet<string> = new Set(['decision', 'policy', 'agent', 'settled'])
const OF_PERSON_OR_ORIGINATOR: ReadonlySet<string> = new Set(['cancel', 'applied'])

/**
 * What a stored message means to a person; undefined for what is no event of a pass (acknowledgments and the like).
 *
 * @param names - how far the installation vouches for the names of people, as {@link askNameVerification} tells it
 */
export function describeEvent(
  stored: StoredMessage,
  fact: Fact,
  { subjects, names }: Pick<Bus, 'subjects'> & { names?: NameVerification | undefined },
): PassEvent | undefined {
  const happening = readHappening(stored, fact, { subjects })
  return happening && names?.unverified && isByPerson(happening) ? { ...happening, unverified: true } : happening
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
      return parsed.kind === 'agent' || parsed.kind === 'policy' ? { ...base, kind: parsed.kind, by: parsed.person } : undefined
    }
  }
}

function detailOf(detail: string | undefined): { detail?: string } {
  return detail === undefined ? {} : { detail: oneLine(detail, 300) }
}

/** The text of an event that has one: progress, cancel, violation. */
function messageIn(stored: StoredMessage): string | undefined {
  const decoded = decode(stored.data, stored.headers.get('Content-Type'))
  if (!decoded.ok || typeof decoded.value !== 'object' || decoded.value === null) return undefined
  const { message, reason, what } = decoded.value as Record<string, unknown>
  return [message, reason, what].find((text) => typeof text === 'string')
}
