import type { ErrorCode } from '@passover/schemas'

/** An expected failure of what a person does: cause, and the next command that mends it. */
export class Failure extends Error {
  readonly code: ErrorCode
  readonly hint: string | undefined
  /** Overrides the error table's exit code, for failures that share a code but not an outcome. */
  readonly exit: number | undefined
  /** Each single thing that is wrong: for --json, and a text for people. */
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
