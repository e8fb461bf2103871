import { cut, cutStart, PassOverError } from '@passover/core'
import { type HandlerResult, handlerResult, issueTexts } from '@passover/schemas'
import { WorkError } from '@passover/sdk'
import type { ChildEnd } from '../process/child-process.js'

/** What a command's end means for its pass. */
export type CommandOutcome =
  | { kind: 'output'; output: HandlerResult }
  /** E011: it ended non-zero, or by a signal, without a valid output. E021: its JSON has a `status` but is no output. E014: it wrote too much. */
  | { kind: 'error'; error: PassOverError }

type CommandOutput = Pick<ChildEnd, 'exit' | 'signal' | 'stdout' | 'stderr' | 'overflowed'>

const STDERR_SHOWN = 2_000
const RAW_SHOWN = 65_536
const FAULTS_SHOWN = 3
const WRITE_LESS = 'let the command write less to stdout, or return what it made as file modifications'

/**
 * The output rule of `passover work`: exit 0 with WorkOutput JSON is that output, with other text a completed one that carries
 * the text, with JSON that has a `status` but fails the schema E021; non-zero with a valid output is that output, without one
 * E011 with the end of stderr. As from a handler, the fields that the system knows may be left out.
 */
export function parseWorkOutput(said: CommandOutput): CommandOutcome {
  if (said.overflowed) return failed('E014', 'the command wrote more than may be kept', { recoverable: false, mend: WRITE_LESS })
  const claimed = claimedOutput(said.stdout)
  const parsed = claimed === undefined ? undefined : handlerResult.safeParse(claimed)
  if (parsed?.success) return { kind: 'output', output: parsed.data }
  if (said.exit !== 0)
    return failed('E011', crashText(said), { exit: said.exit, signal: said.signal, stderr: cutStart(said.stderr, STDERR_SHOWN) })
  if (parsed)
    return failed('E021', `the command's output is no WorkOutput: ${issueTexts(parsed.error.issues, FAULTS_SHOWN).join('; ')}`, {
      raw_output: cut(said.stdout, RAW_SHOWN),
    })
  return { kind: 'output', output: { status: 'completed', output: said.stdout } }
}

/** JSON with a `status` claims to be a WorkOutput; anything else is text. */
function claimedOutput(stdout: string): Record<string, unknown> | undefined {
  // PowerShell and other programs begin UTF-8 with a byte order mark, which is white space but no JSON.
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
  const how = exit === null ? `was ended by ${signal ?? 'a signal'}` : `ended with exit code ${exit}`
  const end = cutStart(stderr.trim(), STDERR_SHOWN)
  return end === '' ? `the command ${how} and said nothing on stderr` : `the command ${how}: ${end}`
}

const REFUSED = /read-only file system|\bEROFS\b/i

/** Explains a command's failure to write, for a reader who does not know about the restriction. */
export function readOnlyHint({ exit, stderr }: Pick<CommandOutput, 'exit' | 'stderr'>): string | undefined {
  if (exit === 0 || !REFUSED.test(stderr)) return undefined
  return 'the directory is read-only for this pass, whose policy does not let it modify files (can_modify_files); a command can write its home directory, /tmp and --writable directories'
}
