import { type Bus, PartError, type PublishMessage } from '@passover/bus'
import { type AnsweredPass, type DeadLetter, type DeadLetterDetail, keyText, type Part, sha256 } from '@passover/schemas'
import { nameMarks } from '@passover/sdk/internal/format'
import { askPasses } from '../audit/ask.js'
import { askNameVerification, type NameVerification } from '../audit/name-verification.js'
import { Failure } from '../errors.js'
import { isOpen, statusLabel } from '../passes/status.js'
import { alreadySettled, keyOf, type ResolutionResult, refusePending, settle } from './resolve.js'
import { buildResubmission, readStoredRequest } from './resubmit.js'

/** Connects as the originator whose request is repeated. */
export type ConnectAs = (originator: string) => Promise<Bus>

interface RequeueOptions {
  detail: DeadLetterDetail
  reason?: string | undefined
  /**
   * Returns true if parts of this size in bytes may be loaded, to check that they still exist.
   * @defaultValue Always true.
   */
  admits?: ((bytes: number) => boolean) | undefined
}

const ADMISSION_TIMEOUT_MS = 5_000
const POLL_MS = 100
const MAX_TRIES = 10

/**
 * Requeues the work of a dead letter (decision 52). First stores an event with the person and the new id. Then publishes the original request under
 * that id, with `retry_of`, as its originator. The id is derived from the dead pass. So a person who completes an interrupted requeue, or requeues at
 * the same time, requests the same pass. Throws Failure E005 if the request is malformed; E013 if its parent has ended or it is not permitted; E041 if
 * a part is missing or the request was not admitted; E031 if there is nothing to repeat.
 */
export async function requeueDeadLetter(
  bus: Bus,
  connectAs: ConnectAs,
  { detail, reason, admits = () => true }: RequeueOptions,
): Promise<ResolutionResult> {
  refusePending(detail)
  const { letter } = detail
  if (letter.settlement?.action === 'drop') return alreadySettled(letter, letter.settlement, { action: 'requeue', now: bus.now() })
  const id = letter.settlement?.requeued_as ?? requeueId(letter)
  if (letter.settlement && (await passOf(bus, letter, id))) {
    return alreadySettled(letter, letter.settlement, { action: 'requeue', now: bus.now() })
  }
  const request = readStoredRequest(detail)
  await refuseLostParts(bus, letter, { parts: request.parts, admits })
  if (request.parent) await refuseEndedParent(bus, letter, request.parent)
  await using originator = await connectAs(letter.originator)
  const settled = letter.settlement
    ? { kind: 'before' as const, settlement: letter.settlement }
    : await settle(bus, letter, { action: 'requeue', requeued_as: id, ...(reason === undefined ? {} : { reason }) })
  if (settled.kind === 'before' && settled.settlement.requeued_as !== id) {
    return alreadySettled(letter, settled.settlement, { action: 'requeue', now: bus.now() })
  }
  await publish(originator, buildResubmission(originator, request, { id, retry_of: letter.id }), id)
  const pass = await untilAnswered(bus, letter, id)
  return settled.kind === 'before' && letter.settlement === undefined
    ? alreadySettled(letter, settled.settlement, { action: 'requeue', now: bus.now() })
    : requeued(letter, { id, by: letter.settlement?.by ?? bus.identity, names: await askNameVerification(bus) }, pass)
}

/** Returns the id of the new pass, which is the same for everyone who requeues the dead pass. */
function requeueId(letter: DeadLetter): string {
  return `requeue-${sha256(keyText(keyOf(letter))).slice(0, 24)}`
}

async function passOf(bus: Bus, { originator, subagent }: DeadLetter, id: string): Promise<AnsweredPass | undefined> {
  return (await askPasses(bus, { id, from: originator, to: subagent }))[0]
}

/** Throws unless all parts of the context still exist. */
async function refuseLostParts(
  bus: Bus,
  { id }: DeadLetter,
  { parts, admits }: { parts: Part[]; admits: (bytes: number) => boolean },
): Promise<void> {
  const moved = parts.filter(({ data }) => !data)
  const bytes = moved.reduce((sum, { size }) => sum + size, 0)
  if (!admits(bytes))
    throw new Failure('E041', `the context of ${id} has ${bytes} bytes, which is too large to check here`, {
      hint: `passover dlq requeue ${id}`,
    })
  for (const part of moved) {
    try {
      await bus.parts.fetch(part)
    } catch (error) {
      if (!(error instanceof PartError)) throw error
      throw new Failure('E041', `${id} cannot be requeued: its part "${part.name}" is no longer stored: ${error.message}`, {
        hint: 'send a new request with its context: passover request',
      })
    }
  }
}

/** Throws Failure E013 if the parent of a pass has ended: without a parent, the pass would get more rights, time and budget than before (P5). */
export async function refuseEndedParent(
  bus: Bus,
  { id }: { id: string },
  parent: { originator: string; subagent: string; id: string },
): Promise<void> {
  const [above] = await askPasses(bus, { id: parent.id, from: parent.originator, to: parent.subagent })
  if (above && isOpen(above.row)) return
  throw new Failure('E013', `${id} is a child of ${keyText(parent)}, which has ended`, {
    hint: `request the parent again: passover show ${parent.id}`,
    exit: 4,
  })
}

async function publish(bus: Bus, message: PublishMessage, id: string): Promise<void> {
  let why = ''
  let code: 'E013' | 'E040' = 'E040'
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const outcome = await bus.publish(message)
    if (outcome.kind === 'stored') return
    why = 'description' in outcome ? outcome.description : outcome.kind
    if (outcome.kind === 'refused' && outcome.reason === 'permission') {
      code = 'E013'
      break
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
  throw new Failure(code, `the dead letter is recorded as requeued as ${id}, but the request was not stored: ${why}`, {
    hint: `run the command again with credentials that may publish requests as ${bus.identity}: it continues from here`,
  })
}

/** Waits up to `ADMISSION_TIMEOUT_MS` for the admission of the new pass, so that a refusal is reported immediately. */
async function untilAnswered(bus: Bus, letter: DeadLetter, id: string): Promise<AnsweredPass | undefined> {
  const deadline = performance.now() + ADMISSION_TIMEOUT_MS
  for (;;) {
    const pass = await passOf(bus, letter, id)
    if ((pass && pass.status !== 'requested') || performance.now() > deadline) return pass
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}

function requeued(
  letter: DeadLetter,
  { id, by, names }: { id: string; by: string; names: NameVerification | undefined },
  pass: AnsweredPass | undefined,
): ResolutionResult {
  const status = pass?.status ?? 'requested'
  const document = { id: letter.id, requeued: true, action: 'requeue', requeued_as: id, by, ...names, status }
  const who = `${by}${nameMarks({ ...names })}`
  if (pass?.status === 'refused') {
    return { document, sentence: `Requeued ${letter.id} as ${id}, which was refused: ${statusLabel(pass.row)}.`, exit: 4 }
  }
  return { document, sentence: `Requeued ${letter.id} as ${id} (${status}) by ${who}. To see the result: passover show ${id}`, exit: 0 }
}
