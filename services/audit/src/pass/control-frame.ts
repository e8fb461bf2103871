import { decode, type StoredMessage } from '@passover/bus'
import type { ControlFrame, Fact } from '@passover/schemas'
import { findFieldBytes } from './msgpack-slice.js'

/** Bytes of a control frame, with the body of its return, beyond which there is no brief: the record itself is hardly longer. */
export const MAX_COMPACT_BYTES = 1_024

/** A control frame as it is remembered. */
export interface DecodedFrame {
  frame: ControlFrame
  /** Of its bytes in the step's body. */
  length: number
  /**
   * Those bytes, where a brief may keep them: of a large frame they would double what an open pass takes. A copy, so that they do not keep the chunk
   * alive that they came in.
   */
  bytes: Uint8Array | undefined
}

/** The body looked into last: projector and archiver both want to know. */
let last: { body: Uint8Array; framed: DecodedFrame | undefined } = { body: new Uint8Array(), framed: undefined }

/** The control frame in a work or held step's body; undefined where there is none. Nothing else of the body is decoded. */
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
 * Session of a pass, as its held or work step says; nothing else of the message is decoded. Undefined where the pass claims another session than
 * its root's: who looks for either one reads the pass.
 */
export function sessionOf(stored: StoredMessage, fact: Fact): string | undefined {
  if (fact.type !== 'step' || (fact.kind !== 'work' && fact.kind !== 'held')) return undefined
  const frame = decodeControlFrame(stored.data)?.frame
  const session: unknown = frame?.session_id
  return typeof session === 'string' && frame?.counted_session === undefined ? session : undefined
}
