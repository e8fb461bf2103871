import { keyText, type PassKey, type Step } from '@passover/schemas'

/** Thrown if no server is reachable or accepts the credentials (the CLI's E040). `hint` says what to do. */
export class BusUnreachable extends Error {
  override readonly name = 'BusUnreachable'
  readonly hint: string
  /** True if a server refused these credentials or they have expired. Starting a server does not help then. */
  readonly refused: boolean
  constructor(message: string, hint: string, cause?: unknown, refused = false) {
    super(message, { cause })
    this.hint = hint
    this.refused = refused
  }
}

/** Reason why a read failed. */
export type ReadFailure = NoReply | 'refused_by_server' | 'too_long'

const PASSING: ReadonlySet<ReadFailure> = new Set<ReadFailure>(['timeout', 'disconnected', 'no_responders'])

/** A read that the server did not answer or refused. It says nothing about the stored state. */
export class BusReadError extends Error {
  override readonly name: string = 'BusReadError'
  readonly reason: ReadFailure
  /** True if a retry may succeed: the server is away, or reports that it is temporarily unavailable. */
  readonly passing: boolean
  constructor(message: string, reason: ReadFailure, { unavailable = false }: { unavailable?: boolean } = {}) {
    super(message)
    this.reason = reason
    this.passing = unavailable || PASSING.has(reason)
  }
}

/** The server or the account cannot reserve the bytes that a stream requires, or has none left. */
export class NoStorageError extends BusReadError {
  override readonly name = 'NoStorageError'
  constructor(message: string) {
    super(message, 'refused_by_server')
  }
}

/** A part was not stored: the owner's bucket is at its byte limit, or the server has no storage left. */
export class PartsFullError extends BusReadError {
  override readonly name = 'PartsFullError'
  readonly owner: string
  constructor(owner: string, why: string) {
    super(`part was not stored: the parts bucket of ${owner} is full (${why})`, 'refused_by_server')
    this.owner = owner
  }
}

/** A part was not stored: one of its subjects already holds different bytes. A retry does not help. */
export class PartTakenError extends BusReadError {
  override readonly name = 'PartTakenError'
  constructor(subject: string) {
    super(`part was not stored: ${subject} already has different bytes, and each subject of a part is written once`, 'refused_by_server')
  }
}

/** A journal with more steps than a correct pass can have. A retry does not help. */
export class JournalTooLong extends BusReadError {
  override readonly name = 'JournalTooLong'
  /** The first steps, and the last step of every subject that a journal can have, in order. Incomplete: must not be folded into a state. */
  readonly steps: Step[]
  constructor(key: PassKey, steps: Step[]) {
    super(`the journal of ${keyText(key)} is too long to read`, 'too_long')
    this.steps = steps
  }
}

/** Reason why a message that was sent got no reply. */
export type NoReply = 'timeout' | 'disconnected' | 'permission' | 'no_responders' | 'too_large' | 'closed'

/** One field of a stream, consumer or bucket that differs from its expected value. */
export interface Difference {
  field: string
  found: unknown
  expected: unknown
}

/**
 * The main stream does not exist, but buckets derived from it do: open passes are lost, or the stream must be restored first. It is never re-created
 * silently (decision 55).
 */
export class StreamLost extends Error {
  override readonly name = 'StreamLost'
  readonly hint: string
  constructor(stream: string, remains: readonly string[]) {
    super(
      `the stream ${stream} is missing, but data derived from it still exists (${remains.join(', ')}): open passes are lost unless the stream is restored`,
    )
    this.hint = `Restore the stream from a backup. To start without it, delete the remaining data: ${remains.map((one) => `nats stream rm ${one.split(':')[0]}`).join('; ')}`
  }
}

/** A stream, consumer or bucket exists with another configuration. Nothing was changed. */
export class TopologyError extends Error {
  override readonly name = 'TopologyError'
  readonly entity: string
  readonly differences: Difference[]
  readonly hint: string
  constructor(entity: string, differences: Difference[], hint: string) {
    const list = differences.map(differenceText).join('; ')
    super(`${entity} exists with another configuration: ${list}. ${hint}`)
    this.entity = entity
    this.differences = differences
    this.hint = hint
  }
}

export function differenceText({ field, found, expected }: Difference): string {
  return `${field} is ${show(found)}, expected ${show(expected)}`
}

function show(value: unknown): string {
  return value === undefined ? 'not set' : JSON.stringify(value)
}

/** The bytes of a part are missing, or do not match its hash. */
export class PartError extends Error {
  override readonly name = 'PartError'
  readonly reason: 'missing' | 'differs' | 'too_large'
  /** True if its bucket does not answer: it does not exist, or has no leader at the moment. */
  readonly unanswered: boolean
  constructor(message: string, reason: 'missing' | 'differs' | 'too_large', unanswered = false) {
    super(message)
    this.reason = reason
    this.unanswered = unanswered
  }
}
