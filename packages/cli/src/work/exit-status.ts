import { cut, cutStart, PassOverError } from '@passover/core'
import { type HandlerResult, handlerResult, issueTexts } from '@passover/schemas'
import { WorkError } from '@passover/sdk'
import type { ChildEnd } from '../process/child-process.js'

/** Outcome of a command for its pass. */
export type CommandOutcome =
  | { kind: 'output'; output: HandlerResult }
  /** E011: failed without a valid output. E021: its JSON has a `status` but is not a valid output. E014: wrote too much. */
  | { kind: 'error'; error: PassOverError }

type CommandOutput = Pick<ChildEnd, 'exit' | 'signal' | 'stdout' | 'stderr' | 'overflowed'>

const STDERR_SHOWN = 2_000
const RAW_SHOWN = 65_536
const FAULTS_SHOWN = 3
const WRITE_LESS = 'make the command write less to stdout, or return large results as file modifications'

/**
 * Derives the outcome of a pass from how its command ended. With exit code 0, WorkOutput JSON is the output, other text becomes a completed output
 * with that text, and JSON with a `status` that fails the schema is E021. With another exit code or a signal, a valid output is still the output;
 * otherwise the pass fails with E011 and the end of stderr. As for handlers, fields that the system knows may be omitted.
 */
export function parseWorkOutput(output: CommandOutput): CommandOutcome {
  if (output.overflowed) return failed('E014', 'the command wrote more than can be stored', { recoverable: false, mend: WRITE_LESS })
  const claimed = claimedOutput(output.stdout)
  const parsed = claimed === undefined ? undefined : handlerResult.safeParse(claimed)
  if (parsed?.success) return { kind: 'output', output: parsed.data }
  if (output.exit !== 0)
    return failed('E011', crashText(output), { exit: output.exit, signal: output.signal, stderr: cutStart(output.stderr, STDERR_SHOWN) })
  if (parsed)
    return failed('E021', `the command's output is not a valid WorkOutput: ${issueTexts(parsed.error.issues, FAULTS_SHOWN).join('; ')}`, {
      raw_output: cut(output.stdout, RAW_SHOWN),
    })
  return { kind: 'output', output: { status: 'completed', output: output.stdout } }
}

/** Parses stdout as a WorkOutput candidate: JSON with a `status`. Anything else is text (`undefined`). */
function claimedOutput(stdout: string): Record<string, unknown> | undefined {
  // PowerShell and other programs start UTF-8 with a byte order mark. `trim` removes it as white space; JSON.parse would reject it.
  const json = stdout.trim()
  if (!json.startsWith('{')) return undefined
  try {
    const value: unknown = JSON.parse(json)
    return typeof value === 'object' && value !== null && !Array.isArray(value) && 'status' in value
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

function failed(
  code: 'E011' | 'E014' | 'E021',
  message: string,
  context?: Record<string, unknown>,
): Extract<CommandOutcome, { kind: 'error' }> {
  const error = code === 'E011' ? new PassOverError(code, message, context) : new WorkError(code, message, context)
  return { kind: 'error', error }
}

function crashText({ exit, signal, stderr }: CommandOutput): string {
  const how = exit === null ? `was killed by ${signal ?? 'a signal'}` : `exited with code ${exit}`
  const end = cutStart(stderr.trim(), STDERR_SHOWN)
  return end === '' ? `the command ${how} and wrote nothing to stderr` : `the command ${how}: ${end}`
}

const REFUSED = /read-only file system|\bEROFS\b/i

/** Returns a hint that explains a failed write, for readers who do not know that the directory is read-only. */
export function readOnlyHint({ exit, stderr }: Pick<CommandOutput, 'exit' | 'stderr'>): string | undefined {
  if (exit === 0 || !REFUSED.test(stderr)) return undefined
  return 'the directory is read-only for this pass, whose policy does not let it modify files (can_modify_files); a command can write its home directory, /tmp and --writable directories'
}
