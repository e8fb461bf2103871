import { type Bus, decode, type StoredMessage } from '@passover/bus'
import {
  acceptReturn,
  auditRecord,
  foldJournal,
  type JournalRules,
  judgeReturnByWork,
  mayCount,
  type NoticedPass,
  noticesOf,
  openControl,
  outputIn,
  type PassHistory,
  type ReturnedBody,
  type ReturnValidity,
  withPartPlaceholders,
} from '@passover/core'
import {
  type ControlFrame,
  type DecisionFact,
  type Fact,
  HEADER,
  journalFilter,
  type Notice,
  type PassKey,
  PRIORITIES,
  type Step,
  SYSTEM,
  sha256,
  type WorkControl,
} from '@passover/schemas'

type Json = Record<string, unknown>

/** True if a notice may be about this message: a held or return step, or a decision on a return, after which its changes may wait to be applied. */
export function mayBeTold(fact: Fact): fact is Step | DecisionFact {
  return fact.type === 'step' ? fact.kind === 'held' || fact.kind === 'return' : fact.type === 'decision' && fact.item === 'return'
}

/**
 * Returns the agent that caused a message, and on whose behalf: a worker causes its return, on behalf of an originator that it may have made up; an
 * originator causes what the system stores about its pass.
 */
export function causedBy({ key, ...fact }: Step | DecisionFact): { agent: string; of?: string } {
  const own = fact.type === 'step' && fact.kind === 'return' && fact.by !== SYSTEM
  return own ? { agent: fact.by, of: key.originator } : { agent: key.originator }
}

/**
 * Returns the last sequence of the journal when the server stored a step; `undefined` if the step does not say, which no worker of this project
 * does.
 */
export function journalBefore({ key, guard }: Step): number | undefined {
  return guard?.subject === journalFilter(key) ? guard.sequence : undefined
}

/**
 * Judges a return by the work step of its pass, read at the leader, so that returns for passes that were never requested cost little. `unclear` means
 * that the journal must be read, which may be large. All other messages count until they are read.
 */
export async function countedAtLeader({ journal, subjects }: Bus, fact: Step | DecisionFact): Promise<ReturnValidity> {
  if (fact.type !== 'step' || fact.kind !== 'return') return 'counts'
  // The server stored a return with this guard only because its journal was empty.
  if (!mayCount(fact) || journalBefore(fact) === 0) return 'nothing'
  if (fact.by === SYSTEM) return 'counts'
  const works = await Promise.all(PRIORITIES.map((priority) => journal.newest(subjects.work(fact.key, priority))))
  const steps = works.flatMap((stored) => (stored ? [subjects.toFact(stored)] : []))
  return judgeReturnByWork(
    fact,
    steps.filter((step) => step.type === 'step'),
  )
}

/**
 * Reads a pass at the leader and returns the notices of one message: none if the message does not count or no notice is wanted (I2).
 *
 * @throws BusReadError if the pass cannot be read now
 */
export async function readNotifications(bus: Bus, step: Pick<Step, 'key' | 'sequence'>, rules: JournalRules): Promise<ReadPass> {
  const stored = await bus.journal.history(step.key)
  const pass = tell(bus, step, { stored, rules })
  const notices = pass ? noticesOf(pass).filter(({ sequence }) => sequence === step.sequence) : []
  return { notices, seen: stored.at(-1)?.sequence ?? 0, returned: pass?.record.sequences.return }
}

/** Result of reading a pass: `seen` is the sequence of its last message, `returned` that of the return that counts. */
export interface ReadPass {
  notices: Notice[]
  seen: number
  returned: number | undefined
}

function tell(
  bus: Bus,
  { key }: Pick<Step, 'key'>,
  { stored, rules }: { stored: StoredMessage[]; rules: JournalRules },
): NoticedPass | undefined {
  const facts = stored.map((message) => ({ message, fact: bus.subjects.toFact(message) }))
  const steps = facts.flatMap(({ fact }) => (fact.type === 'step' ? [fact] : []))
  const { journal } = foldJournal(steps, rules)
  if (journal.state === 'none') return undefined
  const at = (sequence: number | undefined) => stored.find((message) => message.sequence === sequence)
  const first = 'work' in journal && journal.work ? journal.work : 'held' in journal ? journal.held : undefined
  const control = first && controlIn(at(first.sequence), first)
  const returned = journal.state === 'done' ? at(journal.return.sequence) : undefined
  const envelope = returned && envelopeIn(returned, key)
  const return_digest = returned && sha256(returned.data)
  const history: PassHistory = {
    key,
    requests: [],
    steps,
    decisions: facts.flatMap(({ fact, message }) => (fact.type === 'decision' ? [{ ...fact, body: bodyOf(message) }] : [])),
    events: facts.flatMap(({ fact, message }) => (fact.type === 'event' ? [{ ...fact, body: bodyOf(message) }] : [])),
    control,
    returned: envelope,
    return_digest,
  }
  const accepted = envelope && 'output' in envelope ? acceptReturn(envelope.output, key, { rights: control?.rights }) : undefined
  return { record: auditRecord(history, rules), control, output: accepted?.ok ? accepted.output : undefined, return_digest }
}

function controlIn(stored: StoredMessage | undefined, step: Step): WorkControl | undefined {
  const frame = stored && bodyOf(stored)?.control
  return isJson(frame) && frame.policy ? openControl(frame as ControlFrame, step) : undefined
}

/** Decodes a return. Artifacts in separate parts are not fetched, because notices say nothing about their contents. */
function envelopeIn(stored: StoredMessage, key: PassKey): ReturnedBody {
  const body = bodyOf(stored)
  if (!body) return { v: 1, output: {} }
  if ('error' in body) return errorOf(body)
  return { v: 1, output: withPartPlaceholders(outputIn(body, key)) }
}

/** Returns an error as its originator reads it: a body with an error has no output, whatever else it contains. */
function errorOf({ output: _, brief: __, ...rest }: Json): ReturnedBody {
  return rest as unknown as ReturnedBody
}

function bodyOf({ data, headers }: StoredMessage): Json | undefined {
  const decoded = decode(data, headers.get(HEADER.contentType))
  return decoded.ok && isJson(decoded.value) ? decoded.value : undefined
}

function isJson(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
}
