import { decode } from '@passover/bus'
import type { WorkControl } from '@passover/schemas'
import { rangeOf, sliceOf } from './slice.js'
import { unpack, unpackFields } from './unpack.js'

const MAP_16 = 0xde
const COUNT_AT = 1

/** An effective policy as it stands in control frames. Half of every frame, and mostly that of the frame before: kept and decoded once. */
interface SharedPolicy {
  bytes: Uint8Array
  decoded: unknown
}

/** A control frame as it is remembered: its msgpack without the policy, and that. */
export interface Frame {
  rest: Uint8Array
  policy: SharedPolicy | undefined
}

let last: SharedPolicy | undefined

/** The body cut last: projector and archiver both want to know. */
let cut: { body: Uint8Array; bytes: Uint8Array | undefined } = { body: new Uint8Array(), bytes: undefined }

/** The control frame in a work or held step's body, as it stands there. */
export function controlIn(body: Uint8Array): Uint8Array | undefined {
  if (cut.body !== body) cut = { body, bytes: sliceOf(body, 'control') }
  return cut.bytes
}

/** Cuts the control frame out of a work or held step's body; undefined where there is none. Copies what it keeps. */
export function cutFrame(body: Uint8Array): Frame | undefined {
  const bytes = controlIn(body)
  if (!bytes) return undefined
  const range = bytes[0] === MAP_16 ? rangeOf(bytes, 'policy') : undefined
  if (!range) return { rest: bytes.slice(), policy: undefined }
  const rest = new Uint8Array(bytes.length - (range.to - range.key))
  rest.set(bytes.subarray(0, range.key))
  rest.set(bytes.subarray(range.to), range.key)
  const view = new DataView(rest.buffer)
  view.setUint16(COUNT_AT, view.getUint16(COUNT_AT) - 1)
  return { rest, policy: shared(bytes.subarray(range.from, range.to)) }
}

/** The whole frame; undefined for bytes that are none. The policy in it is shared: not to be changed. */
export function decodeFrame({ rest, policy }: Frame): WorkControl | undefined {
  const control = decodedBytes(rest)
  if (typeof control !== 'object' || control === null || Array.isArray(control)) return undefined
  if (!policy) return control as WorkControl
  return Object.assign(control, { policy: decodedOnce(policy) }) as WorkControl
}

/** Those fields of a frame that `target` has, its policy among them; undefined for a frame that is not like nearly all. */
export function readFrame<T extends { policy?: unknown }>({ rest, policy }: Frame, target: T, fields: ReadonlySet<string>): T | undefined {
  const read = policy && unpackFields(rest, target, fields)
  if (read) read.policy = decodedOnce(policy)
  return read
}

function decodedOnce(policy: SharedPolicy): unknown {
  policy.decoded ??= decodedBytes(policy.bytes)
  return policy.decoded
}

function decodedBytes(bytes: Uint8Array): unknown {
  const plain = unpack(bytes)
  if (plain !== undefined) return plain
  const decoded = decode(bytes, 'msgpack')
  return decoded.ok ? decoded.value : undefined
}

function shared(bytes: Uint8Array): SharedPolicy {
  if (!last || Buffer.compare(bytes, last.bytes) !== 0) last = { bytes: bytes.slice(), decoded: undefined }
  return last
}
