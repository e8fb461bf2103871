import type { AckDecision } from '@passover/bus'
import type { Admission, Span, SpanStart } from '@passover/core'
import type { BaseContext } from '../runtime/base-context.js'
import type { ParsedRequest, Parties } from './parse-request.js'

/**
 * Records the decision about a request as a span in the trace of the pass. Begins a new trace if the request carries none, so that an installation
 * that traces only its services still sees complete passes.
 */
export function inDecisionSpan<Asked extends { parties: Parties; reading: ParsedRequest }>(
  context: Pick<BaseContext, 'deps'>,
  asked: Asked,
  decide: (asked: Asked & { span: Span | undefined }) => Promise<AckDecision>,
): Promise<AckDecision> {
  const { parties, reading } = asked
  const key = { ...parties, id: reading.request.id }
  const { retry_of } = reading.request
  const { traceparent: parent } = reading
  return inSpan(context, { key, parent, facts: { retry_of, session_id: reading.session_id } }, (span) => decide({ ...asked, span }))
}

export async function inSpan<T>(
  { deps }: Pick<BaseContext, 'deps'>,
  about: Pick<SpanStart, 'key' | 'parent' | 'facts'>,
  work: (span: Span | undefined) => Promise<T>,
): Promise<T> {
  const span = deps.tracing?.begin({ name: 'decision', at: deps.clock.now(), ...about })
  try {
    const done = await work(span)
    span?.end(deps.clock.now())
    return done
  } catch (error) {
    span?.end(deps.clock.now(), 'error')
    throw error
  }
}

/** Notes the decision on the span. A refusal is a normal decision, not an error of the dispatcher, so its code is an attribute of the decision. */
export function noteDecision(span: Span, admission: Exclude<Admission, { kind: 'later' }>, policy_version: number | undefined): void {
  const code = admission.kind === 'refuse' ? admission.error.code : undefined
  span.note({ decision: DECISIONS[admission.kind], code, policy_version })
}

const DECISIONS = { admit: 'admitted', hold: 'held', refuse: 'refused' } as const
