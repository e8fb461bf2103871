import { errors } from '@nats-io/transport-node'
import type { PassKey } from '@passover/schemas'
import type { Connection } from '../connection/connection.js'
import type { ReplyMux } from '../connection/reply-mux.js'
import type { Subjects } from '../subjects/subjects.js'
import { BusReadError } from '../types/errors.js'
import type { LiveSubscription, ReceivedReturn, SubscribeOptions, WaitedFor } from '../types/subscriptions.js'
import { headersOf } from '../wire/headers.js'
import { distrust } from '../wire/message-origin.js'
import type { StoredMessage } from '../wire/messages.js'
import type { ReceivedMessage } from '../wire/raw-message.js'

export interface HearOptions extends SubscribeOptions {
  subject: string
  onHeard: (heard: ReceivedReturn) => void
}

const ASK_MS = 1_000
const TEXT = new TextEncoder()
const WAITED = TEXT.encode('waited')
const NOT_WAITED = TEXT.encode('not')
const DECODER = new TextDecoder()

/**
 * Subscribes to returns that the stream republishes. Any client can make the server send a stored message to any subject by naming it as the reply
 * subject: a message counts only if the last `Nats-Stream` and `Nats-Subject`, which the server appends, name exactly this return.
 */
export async function subscribeToReturns(link: Connection, subjects: Subjects, options: HearOptions): Promise<LiveSubscription> {
  return subscribeAll(link, [options.subject], (message) => {
    // Republished messages have no reply subject.
    if (message.reply) {
      answerWaiting(link, subjects, { message, reply: message.reply, isWaited: options.isWaited })
      return
    }
    const heard = verifyRepublished(message, subjects)
    if (heard.kind === 'heard') options.onHeard(heard.heard)
    else if (heard.kind === 'suspect') options.onSuspect?.(heard.key)
  })
}

interface AskedWaiting {
  message: ReceivedMessage
  reply: string
  isWaited: HearOptions['isWaited']
}

/** Answers only processes of the same agent: others cannot have an inbox below this prefix. */
function answerWaiting(link: Connection, subjects: Subjects, { message, reply, isWaited }: AskedWaiting): void {
  const parsed = subjects.parse(message.subject)
  const returned = Number(textOf(message))
  if (!isWaited || parsed.kind !== 'returned' || !Number.isSafeInteger(returned) || !reply.startsWith(`${link.inboxPrefix}.`)) return
  link.send(reply, isWaited(parsed.key, returned) ? WAITED : NOT_WAITED)
}

/** Asks on the subject of the return itself: this reaches the subscribers to that return, and the server reports if there are none. */
export async function askIfWaited(replies: ReplyMux, subjects: Subjects, pass: { key: PassKey; returned: number }): Promise<WaitedFor> {
  const subject = subjects.returned(pass.key, pass.key.originator)
  const reply = await replies.request({ subject, data: TEXT.encode(String(pass.returned)), timeout_ms: ASK_MS })
  if ('none' in reply) return reply.none === 'no_responders' ? 'nobody' : 'silent'
  return textOf(reply.message) === 'waited' ? 'waited' : 'not_waited'
}

/** Subscribes to the publishing of steps, stored or not. */
export async function subscribeToSteps(
  link: Connection,
  subjects: Subjects,
  options: { subjects: string[]; onStep: (key: PassKey) => void },
): Promise<LiveSubscription> {
  return subscribeAll(link, options.subjects, (message) => {
    const parsed = subjects.parse(message.subject)
    if (parsed.kind === 'step') options.onStep(parsed.key)
  })
}

/** Subscribes to several subjects. Throws the server's error if it refuses one: BusReadError if it is not permitted. */
async function subscribeAll(link: Connection, wanted: string[], onMessage: (message: ReceivedMessage) => void): Promise<LiveSubscription> {
  const refused: { error?: Error } = {}
  const onRefused = (error: Error): void => {
    refused.error = error
  }
  const subscriptions = wanted.map((subject) => link.subscribe(subject, onMessage, { onRefused }))
  const subscription: LiveSubscription = {
    get closed() {
      return subscriptions.some((one) => one.isClosed())
    },
    async [Symbol.asyncDispose]() {
      for (const one of subscriptions) if (!one.isClosed()) one.unsubscribe()
    },
  }
  // After the round trip the server has the subscriptions: everything stored from now on is received.
  await link.nc.flush().catch(() => undefined)
  if (!refused.error) return subscription
  await subscription[Symbol.asyncDispose]()
  const { error } = refused
  throw error instanceof errors.PermissionViolationError ? new BusReadError(error.message, 'permission') : error
}

type Belief = { kind: 'heard'; heard: ReceivedReturn } | { kind: 'suspect'; key: PassKey } | { kind: 'noise' }

/** Verifies a message received on a `returned` subject. */
export function verifyRepublished(message: ReceivedMessage, subjects: Subjects): Belief {
  const parsed = subjects.parse(message.subject)
  if (parsed.kind !== 'returned') return { kind: 'noise' }
  const { key, by } = parsed
  const headers = headersOf(message)
  const subject = subjects.return(key, by)
  const sequence = Number(headers.last('Nats-Sequence'))
  const time = Date.parse(headers.last('Nats-Time-Stamp') ?? '')
  const ours = headers.last('Nats-Stream') === subjects.stream && headers.last('Nats-Subject') === subject
  if (!ours || !Number.isSafeInteger(sequence) || sequence <= 0 || Number.isNaN(time)) return { kind: 'suspect', key }
  const stored: StoredMessage = { subject, sequence, time, headers: headers.asStored(), data: message.data }
  // The stored message is an answer that the server published on a client's behalf.
  if (distrust('step', stored) !== undefined) return { kind: 'suspect', key }
  return { kind: 'heard', heard: { key, by, stored } }
}

function textOf(message: ReceivedMessage): string {
  return DECODER.decode(message.data)
}
