import { decode } from '@passover/bus'
import type { ControlFrame } from '@passover/schemas'
import { sliceOf } from './slice.js'

/** A control frame as it is remembered, and its bytes in the step's body. */
export interface Framed {
  frame: ControlFrame
  /** A copy, so that they do not keep the chunk alive that they came in. */
  bytes: Uint8Array
}

/** The body looked into last: projector and archiver both want to know. */
let last: { body: Uint8Array; framed: Framed | undefined } = { body: new Uint8Array(), framed: undefined }

/** The control frame in a work or held step's body; undefined where there is none. Nothing else of the body is decoded. */
export function frameIn(body: Uint8Array): Framed | undefined {
  if (last.body !== body) last = { body, framed: framedIn(body) }
  return last.framed
}

function framedIn(body: Uint8Array): Framed | undefined {
  const bytes = sliceOf(body, 'control')
  const decoded = bytes && decode(bytes, 'msgpack')
  const frame = decoded?.ok ? (decoded.value as Partial<ControlFrame> | null) : undefined
  const whole = bytes && typeof frame?.policy === 'object' && frame.policy !== null
  return whole ? { frame: frame as ControlFrame, bytes: Buffer.from(bytes) } : undefined
}
