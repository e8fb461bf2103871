import { PartError } from '@passover/bus'
import {
  acceptReturn,
  type CheckSchema,
  completeOutput,
  isWorkersError,
  type OutputConstraints,
  outputConstraints,
  PassOverError,
  passError,
  schemaFor,
} from '@passover/core'
import {
  type FieldFault,
  type HandlerResult,
  handlerResult,
  issueTexts,
  LIMITS,
  oddField,
  type PassError,
  PROTO,
  type WorkOutput,
} from '@passover/schemas'
import { flushProgress, hasUnpublishedProgress } from '../attempt/progress-reporter.js'
import { type PublishReturnResult, publishReturn, type ReturnContext, type RunResult } from '../attempt/publish-return.js'
import { isPastDeadline, type Run, stopAtDeadline } from '../attempt/run.js'
import { className, describeThrown } from '../errors/describe-thrown.js'
import { tooLargeError, toSendableError } from '../errors/sendable-error.js'
import { WorkError } from './pass.js'

const MAX_ISSUES_SHOWN = 3
const AS_FILES = 'return a shorter text, or return the content as file modifications'

/**
 * Publishes the return of a run, once. A second call gets the outcome of the first. Past the deadline the return is E010 whatever the output, because
 * otherwise chance would decide whether the output or the end by the timekeeper is stored first.
 */
export function returnResult(context: ReturnContext, run: Run, proposed: RunResult): Promise<PublishReturnResult> {
  if (run.returning) return run.returning
  const result = isPastDeadline(context.deps, run) ? { error: stopAtDeadline(run) } : proposed
  run.result = result
  run.returning = hasUnpublishedProgress(run)
    ? flushProgress(context, run).then(() => publishReturn(context, run, result))
    : publishReturn(context, run, result)
  return run.returning
}

/**
 * Validates the result of a handler. Returns the complete output, or E021 or E013 with the raw result. Synchronous if the pass sets no output_schema.
 */
export function validateResult(context: ReturnContext, run: Run, raw: HandlerResult): RunResult | Promise<RunResult> {
  try {
    return validateReadable(context, run, raw)
  } catch (error) {
    // Only getters and Proxies of the handler's result can throw here.
    const why = fieldText(oddField(raw)) ?? `it cannot be read: ${describeThrown(error).message}`
    return { error: passError('E021', `the handler's result is not an output: ${why}`), raw_output: raw }
  }
}

function validateReadable(context: ReturnContext, run: Run, raw: HandlerResult): RunResult | Promise<RunResult> {
  const faulty = faultOf(raw)
  if (faulty) return { error: passError('E021', faulty), raw_output: raw }
  const text = typeof raw === 'string' ? raw : raw.output
  if (typeof text === 'string' && text.length > LIMITS.text) {
    const error = tooLargeError(`the output's text has ${text.length} characters; at most ${LIMITS.text} may be returned`, AS_FILES)
    return { error, raw_output: raw }
  }
  const { control } = run
  const output = completeOutput(raw, {
    control,
    attempt: run.attempt,
    started_at: run.began_at,
    completed_at: context.deps.clock.now(),
    files_passed: run.parts.reduce((files, part) => (part.name.startsWith('file:') ? files + 1 : files), 0),
    aborted: run.abort.aborted,
  })
  const { schemas } = context.deps
  if (schemas && schemaFor(output, control)) {
    // A schema is checked in another thread, which accepts only values that JSON can represent.
    const accepted = accept(run, { raw, output }, { rights: control.rights })
    if ('error' in accepted) return accepted
    const check: CheckSchema = async (schema, value) => ({ faults: await schemas.check(schema, value) })
    return outputConstraints(output, control, check).then((terms) => accept(run, { raw, output }, terms))
  }
  // All fields but the text were filled in by this module and need no validation.
  if (typeof raw === 'string') return { output }
  return accept(run, { raw, output }, control)
}

function accept(
  run: Run,
  { raw, output }: { raw: HandlerResult; output: WorkOutput },
  { rights, schema_faults }: OutputConstraints,
): RunResult {
  const accepted = acceptReturn(output, run.key, { rights, schema_faults })
  if (accepted.ok) return { output }
  // A circular value fails first for having too many values or being too deep, so the actual cause is looked up here.
  const faultText = accepted.error.code === 'E021' && typeof raw !== 'string' ? fieldText(oddField(raw)) : undefined
  return {
    error: faultText === undefined ? accepted.error : passError('E021', `the handler's result is not an output: ${faultText}`),
    raw_output: raw,
  }
}

function fieldText(fault: FieldFault | undefined): string | undefined {
  return fault && issueTexts([{ path: fault.path, message: fault.why }], 1, 'it').join('')
}

/**
 * Returns the fault of a result that has no field of an output. Text, and objects with such a field, are validated as part of the complete output.
 */
function faultOf(raw: unknown): string | undefined {
  if (typeof raw === 'string') return undefined
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) return wrongKind(kindOf(raw))
  if (raw instanceof Error) return `the handler returned an error instead of throwing it: ${describeThrown(raw).message}`
  if (Object.hasOwn(raw, PROTO)) return `the handler's result is not an output: ${PROTO}: this name is not allowed`
  if (KNOWN.some((field) => Object.hasOwn(raw, field))) return undefined
  const kind = className(raw)
  if (kind !== undefined && kind !== 'Object') return wrongKind(`an object of the class ${kind}`)
  const parsed = handlerResult.safeParse(raw)
  if (parsed.success) return undefined
  return `the handler's result is not an output: ${issueTexts(parsed.error.issues, MAX_ISSUES_SHOWN, 'it').join('; ')}`
}

function wrongKind(kind: string): string {
  return `a handler returns text or an object, got ${kind}`
}

function kindOf(raw: unknown): string {
  if (raw === null) return 'null'
  if (Array.isArray(raw)) return 'an array'
  return raw === undefined ? 'nothing' : `a ${typeof raw}`
}

const KNOWN = ['status', 'completion_reason', 'artifacts', 'summary', 'auto_apply_allowed', 'output'] satisfies (keyof WorkOutput)[]

/**
 * Returns the error for a handler that threw: E011 with what it threw, unless the thrown error states a code that a worker may report. Never throws.
 */
export function handlerError(error: unknown, run: Run): PassError {
  try {
    return reportedError(error, run) ?? crash(error, run)
  } catch {
    // A Proxy may throw even during an `instanceof` check.
    return crash(error, run)
  }
}

function reportedError(error: unknown, run: Run): PassError | undefined {
  if (error instanceof PartError)
    return passError('E011', `the context is not complete: ${error.message}`, { attempts: run.attempt, part: error.reason })
  if (!(error instanceof PassOverError)) return undefined
  const own = toSendableError(error.toWire())
  if (own.code === 'E021' || (error instanceof WorkError && isWorkersError(own))) return own
  const { message, details, ...rest } = crash(error, run)
  return passError(rest.code, message, { ...details, cause: { code: own.code, message: own.message } })
}

function crash(error: unknown, run: Run): PassError {
  const { message, ...thrown } = describeThrown(error)
  return passError('E011', message, { attempts: run.attempt, ...thrown })
}
