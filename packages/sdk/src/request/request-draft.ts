import { splitContext } from '@passover/bus'
import { PassOverError, requestDigest } from '@passover/core'
import type { Part, PassKey, PassOverMarker, RequestControl } from '@passover/schemas'
import { invalidOption, readSafely } from '../errors/option-errors.js'
import { buildRequest, type PassOverOptions } from './options.js'
import type { EnclosingPass, Originator } from './originator.js'

/** A request that was checked, cut into parts, and not yet sent. */
export interface PreparedRequest {
  key: PassKey
  request: RequestControl
  session_id: string
  /** Neither the caller, nor the connection, nor a pass that is worked on names it. */
  unnamed_session: boolean
  parts: Part[]
  /** Only where the id was given: the stream may know it already. */
  digest: string | undefined
  /** What its request carries. */
  traceparent: string | undefined
}

/** Throws PassOverError where the options are none of a request. */
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
  const filling = { id: about.id, originator: origin.name, session_id, directory, parent: about.scope?.parent }
  const { control: request, context } = buildRequest(options, filling)
  const { parts } = splitContext(context)
  const key = { originator: origin.name, subagent: request.subagent_id, id: request.id }
  return {
    key,
    request,
    session_id: context.session_id,
    unnamed_session: named === undefined && context.session_id === session_id,
    parts,
    digest: options.id === undefined ? undefined : requestDigest(request, parts),
    traceparent: undefined,
  }
}

/**
 * The session where the caller names none: this connection's, but for a given id one of its own. The session is part of what a request
 * is, and the same id must be the same request from whatever process it is asked again.
 */
function defaultSession(origin: Originator, given: string | undefined): string {
  return `session-${typeof given === 'string' ? given : origin.instance}`
}

export function passOverMarker({ key, request }: PreparedRequest, timestamp: number): PassOverMarker {
  return {
    type: 'pass_over',
    id: `pass_over_${key.id}`,
    originating_agent: key.originator,
    subagent: key.subagent,
    reason: request.reason,
    pass_over_id: key.id,
    timestamp,
  }
}
