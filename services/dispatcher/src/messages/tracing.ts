import type { AckDecision } from '@passover/bus'
import type { Admission, Span, SpanStart } from '@passover/core'
import type { BaseContext } from '../runtime/base-context.js'
import type { ParsedRequest, Parties } from './parse-request.js'

/**
 * What a dispatcher makes of a request, as a span of the pass's trace. Where no trace comes in, it begins one, so that who traces only its
 * services sees whole passes too.
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

/** A refusal is a decision, and no failure of the dispatcher's: its code is told as what was decided. */
export function noteDecision(span: Span, admission: Exclude<Admission, { kind: 'later' }>, policy_version: number | undefined): void {
  const code = admission.kind === 'refuse' ? admission.error.code : undefined
  span.note({ decision: DECISIONS[admission.kind], code, policy_version })
}

const DECISIONS = { admit: 'admitted', hold: 'held', refuse: 'refused' } as const
