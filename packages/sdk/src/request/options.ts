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

/**
 * Options of `Agent.passOver`: the fields of the request. The names are the same as in the stored request. All durations are in milliseconds.
 */
export interface PassOverOptions {
  /** The agent that does the work, by its registered name. */
  subagent: string
  /**
   * Input of the subagent. Only `objective` is required. `session_id` and `directory` default to those of the handler's pass, else to those of the
   * connection. `files` and `messages` default to none.
   */
  work_context: Partial<GivenContext> & { objective: string }
  /** Reason for the pass, for people: approvers, `passover show` and the audit trail. */
  reason: string
  /**
   * True if the originator waits for the return. With `false`, the return is still stored and audited.
   * @defaultValue `true`
   */
  return_required?: boolean | undefined
  /**
   * Queue of the subagent in which the pass waits.
   * @defaultValue `'medium'`
   */
  priority?: Priority | undefined
  /**
   * Time from admission to the deadline, at most the remaining time of the parent pass. A pass that has not ended by the deadline ends with E010.
   * @defaultValue The value of the policy, else 30,000.
   */
  timeout_ms?: number | undefined
  /**
   * Policy settings for this pass only. A setting may allow less than the policy. A setting that allows more fails with E013, unless the policy lists
   * it in `allow_widening`.
   * @defaultValue The policy, unchanged.
   */
  override?: AgentPairOverride | undefined
  /**
   * Restrictions for the subagent, such as `'read_only'` or `'no_external_calls'`. The constraints of the parent pass also apply.
   * @defaultValue None.
   */
  constraints?: string[] | undefined
  /**
   * Kind of output that the originator wants. The subagent can read it. Passover does not check the output against it.
   * @defaultValue None.
   */
  expected_output_type?: ExpectedOutputType | undefined
  /**
   * True to apply proposed changes without confirmation. Takes effect only if policy, output and the user's own setting allow it too.
   * @defaultValue `false`
   */
  auto_apply_on_success?: boolean | undefined
  /**
   * Limits of this pass and all of its descendants: `passes`, `tokens`, and `time_ms` in milliseconds. A pass that would exceed one is refused with
   * E014.
   * @defaultValue The value of the policy, else none.
   */
  budget?: Budget | undefined
  /**
   * Id of the pass, 9 to 64 characters of A-Z a-z 0-9 _ -. If you repeat the same request with the same id, you get the stored state or result. A
   * different request with the same id fails with E005.
   * @defaultValue A new id.
   */
  id?: string | undefined
  /**
   * Id of the pass that this one retries, for the audit trail.
   * @defaultValue None.
   */
  retry_of?: string | undefined
  /**
   * Number of earlier attempts, for the audit trail and the limit of retries.
   * @defaultValue `0`
   */
  attempts_made?: number | undefined
  /**
   * Person on whose behalf the work is passed over, for the audit trail. It grants no rights. Child passes inherit it.
   * @defaultValue The value of the parent pass.
   */
  user_id?: string | undefined
  /**
   * Id that the caller uses to link this pass to other records. Child passes inherit it.
   * @defaultValue The value of the parent pass.
   */
  trace_id?: string | undefined
  /**
   * W3C traceparent that this pass continues. It takes precedence over the active span. A malformed value is ignored.
   * @defaultValue The traceparent of the active OpenTelemetry span, else of the handler's pass.
   */
  traceparent?: string | undefined
  /**
   * Proof of the parent pass. Passover computes the chain depth and finds loops with it.
   * @defaultValue The pass of the calling handler, if any.
   */
  parent?: ParentProof | undefined
  /**
   * Signal that cancels the pass when it is aborted. The pass then ends with E043.
   * @defaultValue None.
   */
  signal?: AbortSignal | undefined
}

/** Values of a request that the SDK fills in. */
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

/** Option names, by the field of the request that they become. Used in error messages. */
const OPTION_OF_FIELD: Record<string, string> = { subagent_id: 'subagent', originating_agent_id: 'agent' }

/** Options that have another name or place in the request. */
const RENAMED_OPTIONS = new Set<string>(['subagent', 'work_context', 'reason', 'return_required', 'id', 'signal', 'traceparent'])

/** A request, split into control data and context, which are sent as separate parts. */
export interface BuiltRequest {
  control: RequestControl
  context: WorkContext
}

/** Builds and validates a request. Throws E005 with the name of the field; nothing is stored in that case. */
export function buildRequest(options: PassOverOptions, defaults: RequestDefaults): BuiltRequest {
  // Filled by assignment: starting an object with a spread or a rest pattern makes all later property writes several times slower.
  const request: Record<string, unknown> = {
    id: defaults.id,
    originating_agent_id: defaults.originator,
    subagent_id: options.subagent,
    reason: options.reason,
    return_required: options.return_required ?? true,
  }
  for (const name in options) {
    if (!Object.hasOwn(OPTIONS, name)) throw unknownOption(name, Object.keys(OPTIONS))
    const value = options[name as keyof PassOverOptions]
    if (value !== undefined && !RENAMED_OPTIONS.has(name)) request[name] = value
  }
  checkSignal(options.signal)
  if (options.traceparent !== undefined && typeof options.traceparent !== 'string') throw invalid('traceparent', 'must be text')
  if (defaults.parent) request.parent = defaults.parent
  const control = requestControl.safeParse(request)
  if (!control.success) throw optionError(control.error, [])
  const context = workContext.safeParse(withDefaults(options.work_context, defaults))
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

/** Validates the signal. Without this check, a wrong value would be noticed only after the request was sent. */
function checkSignal(signal: unknown): void {
  if (signal === undefined || signal instanceof AbortSignal) return
  if (signal instanceof AbortController) throw invalid('signal', 'must be an AbortSignal: pass controller.signal, not the controller')
  throw invalid('signal', 'must be an AbortSignal')
}
