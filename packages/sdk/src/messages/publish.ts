import { CONTENT_TYPE, type PublishMessage, type PublishResult } from '@passover/bus'
import { PassOverError } from '@passover/core'
import { HEADER, type PassKey, timeAnswer } from '@passover/schemas'
import { type Deps, sleep } from '../runtime/dependencies.js'

const UNREACHABLE_TIMEOUT_MS = 5_000
const RETRY_DELAY_MS = 200
/** Milliseconds that a caller should wait after a refused request before the next. */
const RETRY_AFTER_MS = 5_000

/** Returns the headers of an event. A message without headers would look like an answer of the server, which no reader trusts. */
export function eventHeaders(traceparent: string | undefined): Partial<Record<string, string>> {
  return { [HEADER.contentType]: CONTENT_TYPE.msgpack, [HEADER.traceparent]: traceparent }
}

/**
 * Publishes a message that needs no guard: a request or a cancel. Returns the stream sequence. Throws immediately E014 if the stream is full or refuses
 * requests, E012 if the message is too large, and E013 without permission. After any other outcome, it publishes again for 5 s and then throws E040. A
 * publish without an answer is repeated because a duplicate is harmless; other refusals, because the stream may be without a leader. After one publish
 * without an answer, it retries every refusal.
 */
export function publishUnguarded(deps: Deps, message: PublishMessage, key: PassKey): Promise<number> {
  const started_at = deps.clock.monotonic()
  return deps.bus
    .publish(message)
    .then((outcome) => (outcome.kind === 'stored' ? outcome.sequence : publishWithRetries({ deps, message, key, started_at }, outcome)))
}

interface UnguardedPublish {
  deps: Deps
  message: PublishMessage
  key: PassKey
  started_at: number
}

async function publishWithRetries(
  { deps, message, key, started_at }: UnguardedPublish,
  first: Exclude<PublishResult, { kind: 'stored' }>,
): Promise<number> {
  const until = started_at + UNREACHABLE_TIMEOUT_MS
  let unsure = false
  for (let outcome: PublishResult = first; ; outcome = await deps.bus.publish(message)) {
    if (outcome.kind === 'stored') return outcome.sequence
    // A message without an answer may be stored. After that, a refusal does not prove that it is not stored.
    unsure ||= outcome.kind === 'unknown'
    const refused = outcome.kind === 'refused' && !unsure ? await refusalError(deps, outcome, { key, message }) : undefined
    if (refused) throw refused
    if (deps.clock.monotonic() + RETRY_DELAY_MS >= until) throw noAnswerError(deps, outcome, key)
    await sleep(deps.clock, RETRY_DELAY_MS)
  }
}

type Refused = Extract<PublishResult, { kind: 'refused' }>

async function refusalError(
  deps: Deps,
  outcome: Refused,
  about: { key: PassKey; message: PublishMessage },
): Promise<PassOverError | undefined> {
  const { key } = about
  if (outcome.reason === 'too_large') {
    const size = about.message.data?.byteLength ?? 0
    return new PassOverError('E012', `the request is larger than the maximum message size (${size} bytes): ${outcome.description}`, {
      ...key,
      size,
    })
  }
  if (outcome.reason === 'permission') return new PassOverError('E013', `not permitted: ${outcome.description}`, { ...key })
  const full = (why: string) => new PassOverError('E014', why, { ...key, retry_after_ms: RETRY_AFTER_MS })
  if (outcome.reason === 'full') return full(`the stream is full: ${outcome.description}`)
  return outcome.reason === 'closed' && (await areRequestsClosed(deps)) ? full('no requests are accepted at the moment') : undefined
}

/**
 * Returns true if the stream accepts no requests because it is at its high-water mark. A stream without a leader looks the same, so it
 * asks a service that can read the state.
 */
async function areRequestsClosed({ bus }: Deps): Promise<boolean> {
  const answer = timeAnswer.safeParse(await bus.ask({ op: 'time', requests: true }).catch(() => undefined))
  return answer.success && answer.data.ok && answer.data.requests !== 'open'
}

function noAnswerError(deps: Deps, outcome: PublishResult, key: PassKey): PassOverError {
  const description = 'description' in outcome ? outcome.description : outcome.kind
  const what = deps.bus.connected ? 'the server does not accept it' : 'the server cannot be reached'
  return new PassOverError('E040', `${what} (${description})`, { ...key })
}
