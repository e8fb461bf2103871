import type { AckDecision } from '@passover/bus'
import type { AdmissionDecision, Span, SpanStart } from '@passover/core'
import type { BaseContext } from '../runtime/base-context.js'
import type { ParsedRequest, Parties } from './parse-request.js'

/**
 * Records the decision about a request as a span in the trace of the pass. Begins a new trace if the request carries none, so that an installation
 * that traces only its services still sees complete passes.
 */
export function inDecisionSpan<Request extends { parties: Parties; parsed: ParsedRequest }>(
  context: Pick<BaseContext, 'deps'>,
  received: Request,
  decide: (received: Request & { span: Span | undefined }) => Promise<AckDecision>,
): Promise<AckDecision> {
  const { parties, parsed } = received
  const key = { ...parties, id: parsed.request.id }
  const { retry_of } = parsed.request
  const { traceparent: parent } = parsed
  return inSpan(context, { key, parent, facts: { retry_of, session_id: parsed.session_id } }, (span) => decide({ ...received, span }))
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
export function noteDecision(
  span: Span,
  decision: Exclude<AdmissionDecision, { kind: 'later' }>,
  policy_version: number | undefined,
): void {
  const code = decision.kind === 'refuse' ? decision.error.code : undefined
  span.note({ decision: DECISIONS[decision.kind], code, policy_version })
}

const DECISIONS = { admit: 'admitted', hold: 'held', refuse: 'refused' } as const
