import { splitContext } from '@passover/bus'
import { PassOverError, requestDigest } from '@passover/core'
import type { Part, PassKey, PassOverMarker, RequestControl } from '@passover/schemas'
import { invalidOption, readSafely } from '../errors/option-errors.js'
import { buildRequest, type PassOverOptions } from './options.js'
import type { EnclosingPass, Originator } from './originator.js'

/** A request that is valid and split into parts, but not sent yet. */
export interface PreparedRequest {
  key: PassKey
  control: RequestControl
  session_id: string
  /** True if the session is the default: neither the caller, nor the connection, nor the handler's pass sets one. */
  unnamed_session: boolean
  parts: Part[]
  /** Digest of the request, set only if the caller gave the id: the stream may already have a request with that id. */
  digest: string | undefined
  /** W3C traceparent that the request carries. */
  traceparent: string | undefined
}

/** Validates the options and builds the request. Throws PassOverError if they are not valid. */
export function prepareRequest(
  origin: Originator,
  options: PassOverOptions,
  about: { id: string; scope: EnclosingPass | undefined },
): PreparedRequest {
  return readSafely(options, 'options', () => prepareChecked(origin, options, about))
}

function prepareChecked(
  origin: Originator,
  options: PassOverOptions,
  about: { id: string; scope: EnclosingPass | undefined },
): PreparedRequest {
  if (typeof options !== 'object' || options === null) throw invalidOption('options', 'must be an object')
  if (options.signal?.aborted === true) throw new PassOverError('E043', 'the signal was aborted before anything was sent')
  const { session_id: named, directory } = about.scope?.context() ?? origin
  const session_id = named ?? defaultSession(origin, options.id)
  const defaults = { id: about.id, originator: origin.name, session_id, directory, parent: about.scope?.parent }
  const { control, context } = buildRequest(options, defaults)
  const { parts } = splitContext(context)
  const key = { originator: origin.name, subagent: control.subagent_id, id: control.id }
  return {
    key,
    control,
    session_id: context.session_id,
    unnamed_session: named === undefined && context.session_id === session_id,
    parts,
    digest: options.id === undefined ? undefined : requestDigest(control, parts),
    traceparent: undefined,
  }
}

/**
 * Returns the default session of a request: the connection's, or for a given id a session named after the id. The session is part of the
 * request's digest, and a repeated request with the same id must have the same digest in every process.
 */
function defaultSession(origin: Originator, given: string | undefined): string {
  return `session-${typeof given === 'string' ? given : origin.instance}`
}

export function passOverMarker({ key, control }: PreparedRequest, timestamp: number): PassOverMarker {
  return {
    type: 'pass_over',
    id: `pass_over_${key.id}`,
    originating_agent: key.originator,
    subagent: key.subagent,
    reason: control.reason,
    pass_over_id: key.id,
    timestamp,
  }
}
