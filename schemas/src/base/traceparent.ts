/** A position in a trace (W3C Trace Context, level 1). */
export interface TraceContext {
  trace_id: string
  span_id: string
  /** The lowest bit is set if the sender records the trace. */
  flags: number
}

const FIELDS = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const LONGEST = 256
const NO_TRACE = '0'.repeat(32)
const NO_SPAN = '0'.repeat(16)
const LENGTH = 55

/**
 * Parses a `traceparent`. Returns `undefined` for an invalid one, as the standard requires. Later versions are read as far as they are
 * known.
 */
export function parseTraceparent(text: string | undefined): TraceContext | undefined {
  if (text === undefined || text.length > LONGEST) return undefined
  const [, version, trace_id, span_id, flags, more] = FIELDS.exec(text) ?? []
  if (!trace_id || !span_id || !flags || version === 'ff' || (version === '00' && more !== undefined)) return undefined
  if (trace_id === NO_TRACE || span_id === NO_SPAN) return undefined
  return { trace_id, span_id, flags: Number.parseInt(flags, 16) }
}

/** Formats a trace context in version 00, for outgoing messages. */
export function formatTraceparent({ trace_id, span_id, flags }: TraceContext): string {
  return `00-${trace_id}-${span_id}-${(flags & 1).toString(16).padStart(2, '0')}`
}

/** Returns a received `traceparent` in a form that may be forwarded, or `undefined` if it is invalid. */
export function soundTraceparent(text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const parsed = parseTraceparent(text)
  return parsed && (text.length === LENGTH && text.startsWith('00-') ? text : formatTraceparent(parsed))
}

export function traceIdOf(traceparent: string | undefined): string | undefined {
  return parseTraceparent(traceparent)?.trace_id
}
