import type { PassOverError } from '@passover/core'
import {
  type AgentPairOverride,
  type Budget,
  type ExpectedOutputType,
  firstIssue,
  type ParentProof,
  PROTO,
  type Priority,
  type RequestControl,
  requestControl,
  type WorkContext,
  workContext,
} from '@passover/schemas'
import type { z } from 'zod'
import { invalidOption as invalid, unknownOption } from '../errors/option-errors.js'

type GivenContext = z.input<typeof workContext>

/** What is passed over, and on which terms. Times and spans are milliseconds. */
export interface PassOverOptions {
  /** The agent that does the work, by its registered name. */
  subagent: string
  /**
   * What the subagent reads. Only `objective` is required: `session_id` and `directory` are filled in from the connection, `files` and
   * `messages` default to none.
   */
  work_context: Partial<GivenContext> & { objective: string }
  /** Why the work is passed over, for people: approvers, `passover show` and the audit trail. */
  reason: string
  /**
   * Whether a result is waited for. With `false` nobody waits; the return is stored and audited all the same.
   * @defaultValue `true`
   */
  return_required?: boolean | undefined
  /**
   * The queue of the subagent that it waits in.
   * @defaultValue `'medium'`
   */
  priority?: Priority | undefined
  /**
   * Time from admission to the deadline, at most what the parent pass has left. A pass that has not ended by then ends with E010.
   * @defaultValue The policy's, else 30,000.
   */
  timeout_ms?: number | undefined
  /**
   * Policy settings for this pass alone. They may narrow what the policy allows; a setting that would widen it is E013.
   * @defaultValue The policy as it is.
   */
  override?: AgentPairOverride | undefined
  /**
   * What the subagent must not do, such as `'read_only'` or `'no_external_calls'`. Those of the parent pass are added.
   * @defaultValue None.
   */
  constraints?: string[] | undefined
  /**
   * The kind of output that is wanted. The subagent sees it; the output is not checked against it.
   * @defaultValue None.
   */
  expected_output_type?: ExpectedOutputType | undefined
  /**
   * Asks that proposed changes are applied without a question. It takes effect only where policy, output and the user's own setting allow it too.
   * @defaultValue `false`
   */
  auto_apply_on_success?: boolean | undefined
  /**
   * Limits of this pass and of all passes below it: `passes`, `tokens`, and `time_ms` in milliseconds. Beyond one, a pass is refused with E014.
   * @defaultValue The policy's, else none.
   */
  budget?: Budget | undefined
  /**
   * The pass's own id, 9 to 64 characters of A-Z a-z 0-9 _ -. Passing over again with the same id and the same request gets the stored state
   * or result; with another request it is E005.
   * @defaultValue A new id.
   */
  id?: string | undefined
  /**
   * The id of the pass that this one tries again, for the audit trail.
   * @defaultValue None.
   */
  retry_of?: string | undefined
  /**
   * Number of attempts that were made before, for the audit trail and the limit of retries.
   * @defaultValue `0`
   */
  attempts_made?: number | undefined
  /**
   * The person on whose behalf the work is passed over, for the audit trail. It gives no right. Passes below inherit it.
   * @defaultValue That of the parent pass.
   */
  user_id?: string | undefined
  /**
   * An id of the caller that links this pass to other records. Passes below inherit it.
   * @defaultValue That of the parent pass.
   */
  trace_id?: string | undefined
  /**
   * W3C traceparent of what this pass continues, where the process's own OpenTelemetry does not say it. A malformed one is ignored.
   * @defaultValue The active span's.
   */
  traceparent?: string | undefined
  /**
   * The pass within which this one is asked for. It proves the chain that depth and cycles are counted on.
   * @defaultValue The pass whose handler calls, if one does.
   */
  parent?: ParentProof | undefined
  /**
   * Cancels the pass when it is aborted. The pass then ends with E043.
   * @defaultValue None.
   */
  signal?: AbortSignal | undefined
}

/** What the sdk knows without being told. */
export interface RequestDefaults {
  id: string
  originator: string
  session_id: string
  directory: string
  parent?: ParentProof | undefined
}

const OPTIONS: Record<keyof PassOverOptions, true> = {
  subagent: true,
  work_context: true,
  reason: true,
  return_required: true,
  priority: true,
  timeout_ms: true,
  override: true,
  constraints: true,
  expected_output_type: true,
  auto_apply_on_success: true,
  budget: true,
  id: true,
  retry_of: true,
  attempts_made: true,
  user_id: true,
  trace_id: true,
  traceparent: true,
  parent: true,
  signal: true,
}

/** How the request's own names of fields read to whoever gave the options. */
const OPTION_OF_FIELD: Record<string, string> = { subagent_id: 'subagent', originating_agent_id: 'agent' }

/** Options that have another name or place in the request. */
const RENAMED_OPTIONS = new Set<string>(['subagent', 'work_context', 'reason', 'return_required', 'id', 'signal', 'traceparent'])

/** A request in the two halves that travel apart. */
export interface BuiltRequest {
  control: RequestControl
  context: WorkContext
}

/** The whole, checked request. Throws E005 naming the field; nothing was stored then. */
export function buildRequest(options: PassOverOptions, filling: RequestDefaults): BuiltRequest {
  // Filled by assignment: an object that begins with a spread or a rest pattern makes all that follows several times slower.
  const request: Record<string, unknown> = {
    id: filling.id,
    originating_agent_id: filling.originator,
    subagent_id: options.subagent,
    reason: options.reason,
    return_required: options.return_required ?? true,
  }
  for (const name in options) {
    if (!Object.hasOwn(OPTIONS, name)) throw invalid(name, unknownOption(name, Object.keys(OPTIONS)))
    const value = options[name as keyof PassOverOptions]
    if (value !== undefined && !RENAMED_OPTIONS.has(name)) request[name] = value
  }
  checkSignal(options.signal)
  if (options.traceparent !== undefined && typeof options.traceparent !== 'string') throw invalid('traceparent', 'must be text')
  if (filling.parent) request.parent = filling.parent
  const control = requestControl.safeParse(request)
  if (!control.success) throw optionError(control.error, [])
  const context = workContext.safeParse(withDefaults(options.work_context, filling))
  if (!context.success) throw optionError(context.error, ['work_context'])
  return { control: control.data, context: context.data }
}

function withDefaults(given: PassOverOptions['work_context'], { session_id, directory }: RequestDefaults): unknown {
  if (typeof given !== 'object' || given === null) return given
  const context: Record<string, unknown> = { session_id, directory, files: [], messages: [] }
  for (const name in given) {
    if (name === PROTO) throw invalid(`work_context.${PROTO}`, 'this name is not allowed')
    if (given[name] !== undefined) context[name] = given[name]
  }
  return context
}

function optionError(error: z.ZodError, above: string[]): PassOverError {
  const { field, why } = firstIssue(error)
  const [first, ...deeper] = [...above, ...(field === '' ? [] : field.split('.'))]
  const name = first === undefined ? 'request' : (OPTION_OF_FIELD[first] ?? first)
  return invalid([name, ...deeper].join('.'), why)
}

/** What is no signal would be found out only after the request was sent. */
function checkSignal(signal: unknown): void {
  if (signal === undefined || signal instanceof AbortSignal) return
  if (signal instanceof AbortController) throw invalid('signal', 'must be an AbortSignal: pass controller.signal, not the controller')
  throw invalid('signal', 'must be an AbortSignal')
}
