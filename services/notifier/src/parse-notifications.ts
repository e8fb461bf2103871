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
  SLOTS,
  type Step,
  SYSTEM,
  sha256,
  type WorkControl,
} from '@passover/schemas'

type Json = Record<string, unknown>

/** What a notice may be about: a held or return step, or a decision that released an output, whose changes may wait from then on. */
export function mayBeTold(fact: Fact): fact is Step | DecisionFact {
  return fact.type === 'step' ? fact.kind === 'held' || fact.kind === 'return' : fact.type === 'decision' && fact.item === 'return'
}

/**
 * The agent that had a message stored, and for whom: a worker its return, for an originator that it may have made up; an originator what the
 * system stored about its pass.
 */
export function causedBy({ key, ...fact }: Step | DecisionFact): { agent: string; of?: string } {
  const own = fact.type === 'step' && fact.kind === 'return' && fact.by !== SYSTEM
  return own ? { agent: fact.by, of: key.originator } : { agent: key.originator }
}

/** The last sequence in the journal when the server stored a step; undefined where the step does not say, as no worker of ours stores it. */
export function journalBefore({ key, guard }: Step): number | undefined {
  return guard?.subject === journalFilter(key) ? guard.sequence : undefined
}

/**
 * Judges a return by its pass's work, as the leader has it, so that returns of passes that nobody asked for cost little. `unclear`: the journal must be
 * read, which may be large. Everything else counts until it is read.
 */
export async function countedAtLeader({ journal, subjects }: Bus, fact: Step | DecisionFact): Promise<ReturnValidity> {
  if (fact.type !== 'step' || fact.kind !== 'return') return 'counts'
  // The server stored a return with such a guard only if nothing was in its journal.
  if (!mayCount(fact) || journalBefore(fact) === 0) return 'nothing'
  if (fact.by === SYSTEM) return 'counts'
  const works = await Promise.all(SLOTS.map((slot) => journal.newest(subjects.work(fact.key, slot))))
  const steps = works.flatMap((stored) => (stored ? [subjects.toFact(stored)] : []))
  return judgeReturnByWork(
    fact,
    steps.filter((step) => step.type === 'step'),
  )
}

/**
 * What is to be told about such a message: [] where it counts for nothing, or nobody wants it told (I2). Reads the
 * pass at the leader. Throws BusReadError where it cannot be read now.
 */
export async function readNotifications(bus: Bus, step: Pick<Step, 'key' | 'sequence'>, rules: JournalRules): Promise<ReadPass> {
  const stored = await bus.journal.history(step.key)
  const pass = tell(bus, step, { stored, rules })
  const notices = pass ? noticesOf(pass).filter(({ sequence }) => sequence === step.sequence) : []
  return { notices, seen: stored.at(-1)?.sequence ?? 0, returned: pass?.record.sequences.return }
}

/** `seen`: the last message of the pass that was read. `returned`: its return that counts. */
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

/** Artifacts that travel apart are not fetched: nothing is told of what is in them. */
function envelopeIn(stored: StoredMessage, key: PassKey): ReturnedBody {
  const body = bodyOf(stored)
  if (!body) return { v: 1, output: {} }
  if ('error' in body) return errorOf(body)
  return { v: 1, output: withPartPlaceholders(outputIn(body, key)) }
}

/** As its originator reads it: no output, whatever stands beside the error. */
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
