import { type ErrorCode, LIMITS, type PassError } from '@passover/schemas'
import { cut, oneLine } from './text/index.js'

/** Properties of an error code. */
export interface ErrorRow {
  name: string
  /** True if a new request with a new id can succeed. */
  recoverable: boolean
  /** Advice for the person who wrote or runs the agent. */
  action: string
  /** Explanation for a person who does not know the error codes. */
  sentence: string
  http: number
  exit: number
}

/**
 * The table of all errors; docs/reference/errors.md is generated from it.
 */
export const ERRORS: Record<ErrorCode, ErrorRow> = {
  E001: {
    name: 'INVALID_SUBAGENT',
    recoverable: false,
    action: 'Check the name with `passover agents`; start a worker for it or register it.',
    sentence: 'The subagent does not exist, or it may not receive passes.',
    http: 404,
    exit: 4,
  },
  E002: {
    name: 'CHAIN_DEPTH_EXCEEDED',
    recoverable: false,
    action: 'Do the work in this agent, or raise max_chain_depth for this pair.',
    sentence: 'Too many delegation steps. Cannot pass to another agent.',
    http: 422,
    exit: 4,
  },
  E003: {
    name: 'CYCLE_DETECTED',
    recoverable: false,
    action: 'Choose an agent that is not already waiting in this chain.',
    sentence: 'This would create a delegation loop. Choose a different agent.',
    http: 422,
    exit: 4,
  },
  E004: {
    name: 'DISABLED_PAIR',
    recoverable: false,
    action: 'Enable the pair in the policy, or pass to another agent.',
    sentence: 'The policy does not allow this originator to pass work to this subagent.',
    http: 403,
    exit: 4,
  },
  E005: {
    name: 'INVALID_REQUEST',
    recoverable: false,
    action: 'Correct the request; use a new id for a new request.',
    sentence: 'The request is malformed, or its id was used before or has expired.',
    http: 400,
    exit: 2,
  },
  E010: {
    name: 'SUBAGENT_TIMEOUT',
    recoverable: true,
    action: 'Raise timeout_ms, split the work, or start more workers.',
    sentence: 'The agent took too long to respond. Try again with a simpler task.',
    http: 504,
    exit: 124,
  },
  E011: {
    name: 'SUBAGENT_CRASHED',
    recoverable: true,
    action: "Check the worker's log, then try again.",
    sentence: 'The subagent failed, or stopped before it returned an output.',
    http: 502,
    exit: 1,
  },
  E012: {
    name: 'CONTEXT_OVERFLOW',
    recoverable: false,
    action: 'Pass fewer or smaller files and messages, or raise max_context_size_bytes.',
    sentence: 'The context is larger than the policy allows.',
    http: 413,
    exit: 4,
  },
  E013: {
    name: 'PERMISSION_DENIED',
    recoverable: false,
    action: 'Ask a person for the missing right, approval or credentials that the message names. Until then, Passover refuses every retry.',
    sentence: 'This is not allowed, or was not approved.',
    http: 403,
    exit: 4,
  },
  E014: {
    name: 'RESOURCE_EXHAUSTED',
    recoverable: true,
    action: 'Try again after retry_after_ms if the error has it; otherwise raise the limit or free the resource that the message names.',
    sentence: 'A limit of memory, disk, rate or budget is reached.',
    http: 503,
    exit: 1,
  },
  E020: {
    name: 'RETURN_CONTEXT_LOST',
    recoverable: false,
    action: 'Look up the pass in the audit trail: `passover show <id>`.',
    sentence: 'A result arrived for an unknown pass.',
    http: 404,
    exit: 3,
  },
  E021: {
    name: 'INVALID_WORK_OUTPUT',
    recoverable: true,
    action: 'Correct the output of the subagent; the raw output is stored with the pass.',
    sentence: 'The output of the subagent is not valid.',
    http: 502,
    exit: 1,
  },
  E022: {
    name: 'RETURN_TIMEOUT',
    recoverable: true,
    action: 'Request the same id again: the result is stored.',
    sentence: 'The result is stored, but the originator did not fetch it in time.',
    http: 504,
    exit: 124,
  },
  E030: {
    name: 'CONFIG_INVALID',
    recoverable: false,
    action: 'Correct the file or setting that the message names. If it is the policy, the last valid version stays in force.',
    sentence: 'Configuration error. Contact your administrator.',
    http: 422,
    exit: 2,
  },
  E031: {
    name: 'PREFERENCE_CONFLICT',
    recoverable: false,
    action: 'Change one of the settings that the message names, or add the missing one.',
    sentence: 'Settings contradict each other, or a required setting is missing.',
    http: 409,
    exit: 2,
  },
  E040: {
    name: 'UNREACHABLE',
    recoverable: true,
    action:
      'Run `passover doctor`: it shows whether the server or a service is missing. `passover up` starts all of them on your own machine.',
    sentence: 'The server cannot be reached, or no dispatcher accepts requests.',
    http: 503,
    exit: 5,
  },
  E041: {
    name: 'NOT_FOUND',
    recoverable: false,
    action: 'Check the name or id: `passover list` shows passes, `passover agents` shows agents.',
    sentence: 'The pass, agent or version does not exist.',
    http: 404,
    exit: 3,
  },
  E042: {
    name: 'USAGE',
    recoverable: false,
    action: 'Correct the argument that the message names; --help of the command explains it.',
    sentence: 'The command or request is not valid.',
    http: 400,
    exit: 2,
  },
  E043: {
    name: 'CANCELLED',
    recoverable: false,
    action: 'Nothing to do; request the work again if you still need it.',
    sentence: 'The pass was cancelled.',
    http: 409,
    exit: 1,
  },
}

const DENIED_EXIT = 6

/** Returns true if a new request can succeed: the code's entry in the table, unless the error's details set `recoverable: false` (decision 122). */
export function isRecoverable({ code, details }: { code: ErrorCode; details?: Record<string, unknown> | undefined }): boolean {
  return ERRORS[code].recoverable && details?.recoverable !== false
}

/** A failed pass or a failed call, with a code from the error table. */
export class PassOverError extends Error {
  override readonly name = 'PassOverError'
  /** Code from docs/reference/errors.md, such as `E010`. */
  readonly code: ErrorCode
  /** Details for programs, such as the chain, sizes, `field`, `retry_after_ms` or `attempts`. */
  readonly context?: Record<string, unknown>
  /** True if a new request with a new id can succeed. */
  readonly recoverable: boolean
  /** What to do about the error: the suggestion in `context.mend` if there is one, otherwise the action in the error table. */
  readonly suggestedAction: string

  constructor(code: ErrorCode, message: string, context?: Record<string, unknown>) {
    super(message)
    this.code = code
    if (context) this.context = context
    this.recoverable = isRecoverable({ code, details: context })
    this.suggestedAction = suggestionIn(context) ?? ERRORS[code].action
  }

  /** Returns the form in which the error is sent in a return and printed with --json. */
  toWire(): PassError {
    return passError(this.code, this.message, this.context)
  }

  /** Creates the error from its wire form. */
  static from(wire: PassError): PassOverError {
    return new PassOverError(wire.code, wire.message, wire.details)
  }
}

const SUGGESTION_LENGTH = 300

/** Returns the suggestion in `context.mend` as a sentence, or `undefined` if there is none. It is more specific than the table's action. */
function suggestionIn(context: Record<string, unknown> | undefined): string | undefined {
  const { mend } = context ?? {}
  if (typeof mend !== 'string' || mend === '') return undefined
  const line = oneLine(mend, SUGGESTION_LENGTH).replace(/(^|: )passover /g, '$1npx passover ')
  if (line.startsWith('npx ')) return `Run: ${line}`
  // A full stop at the end would be copied together with the command.
  const end = /[.!?…]$/.test(line) || line.includes(': npx passover ') ? '' : '.'
  return `${line.charAt(0).toUpperCase()}${line.slice(1)}${end}`
}

/** Creates an error as a value. The message is shortened and made well-formed, because a thrown error's text can have any length and content. */
export function passError(code: ErrorCode, message: string, details?: Record<string, unknown>): PassError {
  const fitting = clipped(message)
  return details ? { code, message: fitting, details } : { code, message: fitting }
}

/** Shortens the text to the limit of a page and replaces lone surrogates. */
function clipped(message: string): string {
  return cut(message, LIMITS.page).toWellFormed()
}

/** Returns the exit code of a command that ended with this error. A denied or expired approval is 6, not 4. */
export function exitCode(error: { code: ErrorCode; details?: Record<string, unknown> | undefined }): number {
  const approval = error.details?.approval
  if (error.code === 'E013' && (approval === 'denied' || approval === 'expired')) return DENIED_EXIT
  return ERRORS[error.code].exit
}
