import { EVENT_KINDS, type EventKind, NOBODY, STEP_KINDS, type StepKind } from '@passover/schemas'
import type { ParsedSubject } from './subject-facts.js'

/** Token formats that correct publishers use. */
export const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/
export const ITEM = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/
export const ID = /^(?:[A-Za-z0-9_-]{9,64}|bad-\d{1,16})$/
/** Length of the first of the two tokens into which an id is split in a `returned` subject. */
export const ID_HEAD = 8
export const UNKNOWN: ParsedSubject = { kind: 'unknown' }

const REQUEST = 'request.'

function isEvent(token: string): token is EventKind {
  return (EVENT_KINDS as readonly string[]).includes(token)
}

/** Parses the subject that begins, after its prefix, at index `from`. */
export function parseSubject(subject: string, from: number): ParsedSubject {
  const dot = subject.indexOf('.', from)
  const step = stepAt(subject, from, dot)
  if (step) return parseStep(subject, step, dot)
  if (subject.startsWith(REQUEST, from)) return parseRequest(subject, from + REQUEST.length)
  const tokens = subject.slice(from).split('.')
  return tokens.length < 5 ? parseShort(tokens) : parsePass(tokens)
}

/** Compares in place: a substring would have to be allocated and hashed for a lookup. */
function stepAt(subject: string, from: number, to: number): StepKind | undefined {
  for (const kind of STEP_KINDS) if (to - from === kind.length && subject.startsWith(kind, from)) return kind
  return undefined
}

/** Slices at the four dots instead of splitting: two of three stored messages are steps. */
function parseStep(subject: string, step: StepKind, a: number): ParsedSubject {
  const b = subject.indexOf('.', a + 1)
  const c = subject.indexOf('.', b + 1)
  const d = subject.indexOf('.', c + 1)
  if (b < 0 || c < b || d < c || subject.indexOf('.', d + 1) >= 0) return UNKNOWN
  // The last token may be anything: the guard counts the message, so it must not be ignored.
  const by = subject.slice(d + 1)
  const key = { originator: subject.slice(a + 1, b), subagent: subject.slice(b + 1, c), id: subject.slice(c + 1, d) }
  return NAME.test(key.originator) && NAME.test(key.subagent) && ID.test(key.id) && by !== '' ? { kind: 'step', step, key, by } : UNKNOWN
}

/** A request whose subject has two tokens, but not two names: it must be answered and archived like any other. */
const NAMELESS: ParsedSubject = { kind: 'request', subagent: NOBODY, originator: NOBODY }

/** Slices for the same reason: nearly all other stored messages are requests. */
function parseRequest(subject: string, from: number): ParsedSubject {
  const dot = subject.indexOf('.', from)
  const subagent = subject.slice(from, dot)
  const originator = subject.slice(dot + 1)
  if (dot < 0 || originator.includes('.')) return UNKNOWN
  return NAME.test(subagent) && NAME.test(originator) ? { kind: 'request', subagent, originator } : NAMELESS
}

function parseShort(tokens: string[]): ParsedSubject {
  const [kind, a] = tokens
  if (tokens.length !== 2 || !a || !NAME.test(a)) return UNKNOWN
  switch (kind) {
    case 'acknowledged':
    case 'decided':
      return { kind, originator: a }
    case 'policy':
    case 'agent':
    case 'custody':
      return { kind, person: a }
    case 'ask':
      return { kind, asker: a }
    case 'register':
      return { kind, agent: a }
    default:
      return UNKNOWN
  }
}

function parsePass(tokens: string[]): ParsedSubject {
  const [kind = '', originator = '', second = '', third = '', fourth = '', fifth = ''] = tokens
  if (kind === 'returned') return parseReturned(tokens)
  if (!NAME.test(originator) || !NAME.test(second) || !ID.test(third)) return UNKNOWN
  const key = { originator, subagent: second, id: third }
  if (tokens.length !== 6 || !NAME.test(fifth)) return UNKNOWN
  if (kind === 'decision') return ITEM.test(fourth) ? { kind, key, item: fourth, person: fifth } : UNKNOWN
  if (kind === 'event') return isEvent(fourth) ? { kind, event: fourth, key, sender: fifth } : UNKNOWN
  return UNKNOWN
}

function parseReturned(tokens: string[]): ParsedSubject {
  const whole = tokens.length === 5
  if (!whole && tokens.length !== 6) return UNKNOWN
  const [, originator = '', head = '', third = '', fourth = '', fifth = ''] = tokens
  const id = whole ? head : head + third
  const subagent = whole ? third : fourth
  const by = whole ? fourth : fifth
  if (!NAME.test(originator) || !NAME.test(subagent) || !NAME.test(by) || !ID.test(id)) return UNKNOWN
  if (whole ? head.length > ID_HEAD : head.length !== ID_HEAD) return UNKNOWN
  return { kind: 'returned', key: { originator, subagent, id }, by }
}
