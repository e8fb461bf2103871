import { decode } from '@msgpack/msgpack'
import type { StoredMessage } from './types.js'

/** Sender of the steps that the system itself publishes. */
export const SYSTEM = 'passover'

/** Fields of a step's subject. */
export interface StepSubject {
  kind: string
  originator: string
  subagent: string
  id: string
  by: string
}

/** Guard of a step: the sequence that it expects of the last message in its journal, or of the last message under its own subject. */
export interface StepGuard {
  covers: 'journal' | 'own subject'
  sequence: number
}

/** Returns a step's guard, or `undefined` if it was published without a guard that covers its journal. */
export function guardOf(record: StoredMessage, step: StepSubject, prefix: string): StepGuard | undefined {
  const sequence = record.header('Nats-Expected-Last-Subject-Sequence')
  if (sequence === undefined) return undefined
  // Without this header the server checks the message's own subject.
  const subject = record.header('Nats-Expected-Last-Subject-Sequence-Subject') ?? record.subject
  if (subject === `${prefix}*.${step.originator}.${step.subagent}.${step.id}.*`) return { covers: 'journal', sequence: Number(sequence) }
  // The timekeeper's last resort against a worker that keeps storing fences: only the system publishes under this subject.
  const isLastResort = step.kind === 'return' && step.by === SYSTEM && subject === record.subject
  return isLastResort ? { covers: 'own subject', sequence: Number(sequence) } : undefined
}

/** Headers of answers of the server. Each stored answer that has headers contains at least one of them. */
const OF_SERVER = ['Nats-Subject', 'Nats-Num-Pending', 'Nats-Last-Consumer', 'Nats-Pending-Messages']

/** Returns true if a step is an answer that the server stored on a client's behalf. Such a step does not count. */
export function publishedByServer(record: StoredMessage): boolean {
  const named = record.headers?.()
  return OF_SERVER.some((name) => record.header(name) !== undefined) || (named !== undefined && Object.keys(named).length === 0)
}

/** Returns the time in milliseconds from a generated id or a UUIDv7. */
export function timeOfId(id: string): number | undefined {
  if (/^[0-9a-z]{17}_[A-Za-z0-9_-]{14}$/.test(id)) return Number.parseInt(id.slice(8, 17), 36)
  if (/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i.test(id))
    return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)
  return undefined
}

/** Returns the id from the body of a request without an id header: JSON from a shell, or an envelope. */
export function idInBody(data: Uint8Array): string | undefined {
  for (const read of [() => JSON.parse(new TextDecoder().decode(data)) as unknown, () => decode(data)]) {
    try {
      const body = read() as { id?: unknown; request?: { id?: unknown } } | null
      const id = body?.request?.id ?? body?.id
      if (typeof id === 'string') return id
    } catch {
      // The body is not in this format.
    }
  }
  return undefined
}
