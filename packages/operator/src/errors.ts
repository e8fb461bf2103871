import type { ErrorCode } from '@passover/schemas'

/** An expected failure of an operation: the cause, and the command that helps. */
export class Failure extends Error {
  readonly code: ErrorCode
  readonly hint: string | undefined
  /** Overrides the error table's exit code, for failures that share a code but not an outcome. */
  readonly exit: number | undefined
  /** Each individual fault, for --json, and as text for people. */
  readonly faults: Record<string, unknown>[] | undefined
  readonly lines: string[] | undefined

  constructor(
    code: ErrorCode,
    message: string,
    more: { hint?: string; exit?: number; faults?: Record<string, unknown>[]; lines?: string[] } = {},
  ) {
    super(message)
    this.name = 'Failure'
    this.code = code
    this.hint = more.hint
    this.exit = more.exit
    this.faults = more.faults
    this.lines = more.lines
  }
}

/** A mistake on the command line (E042, exit 2). */
export function usage(message: string, hint?: string): Failure {
  return new Failure('E042', message, hint === undefined ? { exit: 2 } : { hint, exit: 2 })
}
