import { decode, findFieldBytes, type StoredMessage } from '@passover/bus'
import type { ControlFrame, Fact } from '@passover/schemas'

/** Maximum bytes of a control frame, together with the body of its return, for a compact record. Above that the full record is hardly longer. */
export const MAX_COMPACT_BYTES = 1_024

/** A decoded control frame. */
export interface DecodedFrame {
  frame: ControlFrame
  /** Length in bytes of the encoded frame. */
  length: number
  /**
   * The encoded frame, kept only if a compact record may contain it: a large frame would double the memory of an open pass. It is a copy, so that
   * the chunk in which it arrived can be freed.
   */
  bytes: Uint8Array | undefined
}

/** Result for the body decoded last, because projector and archiver both decode it. */
let last: { body: Uint8Array; framed: DecodedFrame | undefined } = { body: new Uint8Array(), framed: undefined }

/** Returns the control frame in the body of a work or held step, or `undefined` if there is none. Decodes nothing else of the body. */
export function decodeControlFrame(body: Uint8Array): DecodedFrame | undefined {
  if (last.body !== body) last = { body, framed: decodeFrame(body) }
  return last.framed
}

function decodeFrame(body: Uint8Array): DecodedFrame | undefined {
  const bytes = findFieldBytes(body, 'control')
  const decoded = bytes && decode(bytes, 'msgpack')
  const frame = decoded?.ok ? (decoded.value as Partial<ControlFrame> | null) : undefined
  const whole = bytes && typeof frame?.policy === 'object' && frame.policy !== null
  if (!whole) return undefined
  const { length } = bytes
  return { frame: frame as ControlFrame, length, bytes: length <= MAX_COMPACT_BYTES ? Buffer.from(bytes) : undefined }
}

/**
 * Returns the session that the held or work step of a pass names; decodes nothing else of the message. Returns `undefined` if the pass claims a
 * session other than its root's: a search for either session must then load the pass.
 */
export function sessionOf(stored: StoredMessage, fact: Fact): string | undefined {
  if (fact.type !== 'step' || (fact.kind !== 'work' && fact.kind !== 'held')) return undefined
  const frame = decodeControlFrame(stored.data)?.frame
  const session: unknown = frame?.session_id
  return typeof session === 'string' && frame?.counted_session === undefined ? session : undefined
}
