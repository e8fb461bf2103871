import { fileLimitFault } from '@passover/bus/entry'
import { Failure as CliFailure, usage } from '@passover/operator/errors'
import type { ErrorCode } from '@passover/schemas'
import { pathFault } from './file-error.js'
import { duration } from './terminal/duration.js'
import { oneLine } from './terminal/text.js'

export { CliFailure, usage }

/** The policy that refused a pass, and the line of the project's policy file that contains the rule, if found. */
export interface PolicyRule {
  policy_name: string
  policy_version: number
  policy_path?: string
  file?: string
  line?: number
}

/** The document that `--json` prints for an error. */
export interface FailureDocument {
  error: { code: string; message: string; hint?: string; retry_after_ms?: number; faults?: Record<string, unknown>[]; rule?: PolicyRule }
}

/** Ends the command with this exit code. All output has already been printed. */
export class ExitError extends Error {
  readonly exit: number

  constructor(exit: number) {
    super(`exit ${exit}`)
    this.name = 'ExitError'
    this.exit = exit
  }
}

const MISCONFIGURED = 2
const NEEDS_ROLE =
  'use credentials of a role that may (docs/reference/permissions.md): passover auth list shows the roles, --as <person> picks one'
/** Exit code if the person answers a question with no. Nothing was changed. */
export const DECLINED = 1
/** Exit code after Ctrl-C. */
export const INTERRUPTED = 130

/** Every exit code of the command line. `--help` and docs/reference/errors.md show this table. */
export const EXIT_CODES: readonly (readonly [number, string])[] = [
  [0, 'done'],
  [1, 'the command ran and failed, or a person declined'],
  [2, 'usage: the command line or a setting is wrong'],
  [3, 'not found'],
  [4, 'refused by chain or policy'],
  [5, 'cannot reach the server'],
  [6, 'approval denied or expired'],
  [124, 'the time limit was reached'],
  [130, 'interrupted'],
]

export const EXIT_CODES_HELP = `\nExit codes:\n${EXIT_CODES.map(([code, what]) => `  ${String(code).padEnd(5)}${what}`).join('\n')}`

interface Coded {
  code: ErrorCode
  message: string
  context?: Record<string, unknown>
  /** The failed pass, if it can be looked up. */
  pass_id?: string
  /** Advice that replaces the one of the error table, if more is known. */
  mend?: string
  /** Place in the project's policy file that caused the refusal. */
  rule_at?: Pick<PolicyRule, 'file' | 'line'>
}

function isCoded(error: unknown): error is Coded {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' && /^E0\d\d$/.test(error.code)
}

/** A failure ready for printing. `lines` are printed below the message, for people only. */
export interface FormattedFailure {
  document: FailureDocument
  exit: number
  lines?: string[]
}

function ruleOf({ context, rule_at }: Coded): PolicyRule | undefined {
  const { policy_name, policy_version, policy_path } = context ?? {}
  if (typeof policy_name !== 'string' || typeof policy_version !== 'number') return undefined
  return { policy_name, policy_version, ...(typeof policy_path === 'string' ? { policy_path } : {}), ...rule_at }
}

function ruleText({ policy_name, policy_version, policy_path, file, line }: PolicyRule): string {
  const shown = oneLine(policy_name)
  const name = policy_version === 0 ? `${shown}, from the defaults (no policy was published)` : `${shown}, policy version ${policy_version}`
  return `  by ${name}${policy_path ? `  ${oneLine(policy_path)}` : ''}${file ? `  ${file}:${line}` : ''}`
}

/** Returns the hint of the service that refused, which is more specific than the error table. */
function hintIn(context: Coded['context']): string | undefined {
  return typeof context?.mend === 'string' ? oneLine(context.mend, 300) : undefined
}

/** Returns the time to wait (ms) if the error is a limit that frees up over time (E014). */
function retryDelayIn({ code, context }: Coded): number | undefined {
  const wait = context?.retry_after_ms
  return code === 'E014' && typeof wait === 'number' && wait >= 0 ? wait : undefined
}

function hintOf(error: Coded, action: string): string {
  const wait = retryDelayIn(error)
  return error.mend ?? hintIn(error.context) ?? (wait === undefined ? action : `Try again after ${duration(wait)}.`)
}

/** Describes what a failure prints and its exit code. An error without a code is a bug in Passover and is reported as one. */
export async function describeFailure(error: unknown): Promise<FormattedFailure> {
  if (error instanceof CliFailure && error.exit !== undefined) {
    return { document: failureDocument(error.code, error.message, error.hint), exit: error.exit }
  }
  if (isCoded(error)) {
    const { ERRORS, exitCode } = await import('@passover/core')
    const lookUp = error.pass_id === undefined ? '' : ` More: passover show ${error.pass_id}`
    const mend = hintOf(error, ERRORS[error.code].action)
    // No full stop after a command at the end: people would copy it with the command.
    const stop = /[.!?…]$/.test(mend) || (lookUp === '' && mend.includes('passover ')) ? '' : '.'
    const hint = error instanceof CliFailure ? error.hint : mend + stop + lookUp
    const { error: said } = failureDocument(error.code, error.message, hint)
    const { faults, lines } = error instanceof CliFailure ? error : {}
    const rule = ruleOf(error)
    const retry_after_ms = retryDelayIn(error)
    const waits = retry_after_ms === undefined ? {} : { retry_after_ms }
    const document = { error: { ...said, ...waits, ...(faults ? { faults } : {}), ...(rule ? { rule } : {}) } }
    const exit = exitCode({ code: error.code, details: error.context })
    const told = lines ?? (rule ? [ruleText(rule)] : undefined)
    return { document, exit, ...(told ? { lines: told } : {}) }
  }
  // Checked before the imports below, because they open files too.
  const limit = fileLimitFault(error)
  if (limit) return { document: failureDocument('E030', limit.message, limit.hint), exit: MISCONFIGURED }
  const { errorText } = await import('@passover/schemas')
  const message = errorText(error)
  const outside = await describeForeignError(error, message)
  if (outside) return outside
  const fault = pathFault(error)
  if (fault) return { document: failureDocument('E042', fault, 'check the path and its permissions'), exit: MISCONFIGURED }
  return { document: failureDocument('INTERNAL', message, 'this is a bug in passover; PASSOVER_DEBUG=1 prints the stack trace'), exit: 1 }
}

/** Describes failures that neither the command nor the person caused: the server does not answer a read, or stored data is damaged. */
async function describeForeignError(error: unknown, message: string): Promise<FormattedFailure | undefined> {
  const { BusReadError } = await import('@passover/bus')
  if (error instanceof BusReadError && error.reason !== 'permission') {
    const { ERRORS, exitCode } = await import('@passover/core')
    return { document: failureDocument('E040', message, ERRORS.E040.action), exit: exitCode({ code: 'E040' }) }
  }
  const write = failedWrite(error)
  if (write) {
    const { ERRORS, exitCode } = await import('@passover/core')
    const hint = write === 'E013' ? NEEDS_ROLE : ERRORS[write].action
    return { document: failureDocument(write, message, hint), exit: exitCode({ code: write }) }
  }
  const { SegmentDamaged } = await import('@passover/archive')
  if (!(error instanceof SegmentDamaged)) return undefined
  const hint = '`passover verify` shows the damage; `passover audit rebuild` rebuilds an index'
  return { document: failureDocument('E041', `the archive is damaged: ${message}`, hint), exit: 1 }
}

function failureDocument(code: string, message: string, hint: string | undefined): FailureDocument {
  return { error: { code, message, ...(hint === undefined ? {} : { hint }) } }
}

/** True if the server refused a read or a write because the connection's user may not do it. */
export function isPermissionError(error: unknown): boolean {
  const { reason } = (error ?? {}) as { reason?: unknown }
  return error instanceof Error && ((error.name === 'BusReadError' && reason === 'permission') || outcomeOf(error)?.reason === 'permission')
}

/** Returns the code of a read or write that the server refused or did not confirm. Recognised by name, so that the bus is not loaded for it. */
function failedWrite(error: unknown): 'E013' | 'E014' | 'E040' | undefined {
  if (isPermissionError(error)) return 'E013'
  const outcome = error instanceof Error ? outcomeOf(error) : undefined
  if (!outcome) return undefined
  return outcome.reason === 'full' ? 'E014' : 'E040'
}

/** Returns why an entry or an object was not written (`PublishResult`). */
function outcomeOf(error: Error): { kind?: unknown; reason?: unknown } | undefined {
  if (error.name !== 'TableError' && error.name !== 'ObjectError') return undefined
  return (error as { outcome?: { kind?: unknown; reason?: unknown } }).outcome
}
