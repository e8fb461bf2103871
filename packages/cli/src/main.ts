import { CommanderError } from 'commander'
import { describeFailure, ExitError, type FailureDocument, type FormattedFailure } from './errors.js'
import { fileErrorReason } from './file-error.js'
import { buildProgram } from './program.js'
import { openTerminal } from './terminal/terminal.js'
import { formatCommands, indentContinuation, oneLine } from './terminal/text.js'
import { write, writeJson } from './terminal/writer.js'
import { missingCommandMessage, namedCommand, usageHint } from './unknown-command.js'

/** Runs one command line and ends the process with the command's exit code (docs/reference/errors.md). */
export async function main(argv: string[]): Promise<void> {
  endOnLostOutput()
  const code = await run(argv)
  process.exitCode = code
  // Flushes both streams before exiting. Anything else that keeps the process alive is not waited for.
  await flushed(process.stdout)
  await flushed(process.stderr)
  process.exit(code)
}

/** Runs one command line and returns the exit code. */
export async function run(argv: string[]): Promise<number> {
  const before = argv.includes('--') ? argv.slice(0, argv.indexOf('--')) : argv
  const machine = before.includes('--json') || before.includes('--jsonl')
  const program = buildProgram()
  try {
    await program.parseAsync(argv.length === 0 ? ['--help'] : argv, { from: 'user' })
    return 0
  } catch (error) {
    if (error instanceof ExitError) return error.exit
    if (error instanceof CommanderError && error.exitCode === 0) return 0
    if (process.env.PASSOVER_DEBUG && error instanceof Error) write('stderr', `${indentContinuation(error.stack ?? error.message)}\n`)
    const described: FormattedFailure =
      error instanceof CommanderError
        ? usageFailure(
            { message: missingCommandMessage(error, program) ?? error.message },
            { command: namedCommand(before, program), hint: usageHint(error, before, program) },
          )
        : await describeFailure(error)
    print(described, { machine, jsonl: before.includes('--jsonl'), color: !before.includes('--no-color') })
    return described.exit
  }
}

/**
 * Patterns of commander's messages about invalid values:
 * `option '--limit <n>' argument 'many' is invalid. …`,
 * `command-argument value 'a.b' is invalid for argument 'agent'. …`
 */
const WRONG_OPTION = /^option '([^']*)' argument '([\s\S]*)' is invalid\.(?: ([\s\S]+))?$/
const WRONG_ARGUMENT = /^command-argument value '([\s\S]*)' is invalid for argument '([^']*)'\.(?: ([\s\S]+))?$/

/** Returns the invalid value and what is accepted instead, or `undefined` if the message is about something else. */
function wrongValue(message: string): { message: string; hint: string } | undefined {
  const [, flags, value, rule] = WRONG_OPTION.exec(message) ?? []
  const [, given, argument, form] = WRONG_ARGUMENT.exec(message) ?? []
  const what = flags === undefined ? argument && `<${argument}>` : /--[\w-]+/.exec(flags)?.[0]
  const right = (rule ?? form)?.replace(/^Allowed choices are (.*)\.$/, 'expected one of: $1')
  return what && right ? { message: `${what} does not accept "${oneLine(value ?? given ?? '', 60)}"`, hint: right } : undefined
}

/** Splits a commander message into cause and hint. For example, the second line may be "(Did you mean show?)". */
export function usageFailure(
  error: Pick<CommanderError, 'message'>,
  { command = 'passover', hint: given }: { command?: string; hint?: string | undefined } = {},
): { document: FailureDocument; exit: number } {
  const wrong = wrongValue(error.message.replace(/^error: /, ''))
  if (wrong) return { document: { error: { code: 'E042', ...wrong } }, exit: 2 }
  const [cause = '', suggestion] = error.message.replace(/^error: /, '').split('\n')
  const explained =
    command === 'passover' ? 'passover --help lists all commands; passover help <command> explains one' : `${command} --help explains it`
  const hint = given ?? suggestion?.replace(/^\((.*)\)$/, '$1') ?? explained
  return { document: { error: { code: 'E042', message: cause, hint } }, exit: 2 }
}

/** Prints an error: as the command's JSON document on stdout with `--json` or `--jsonl`, otherwise as text on stderr. */
function print(
  { document: { error: said }, lines = [] }: FormattedFailure,
  options: { machine: boolean; jsonl: boolean; color: boolean },
): void {
  const error = {
    ...said,
    message: formatCommands(said.message, process.env),
    ...(said.hint === undefined ? {} : { hint: formatCommands(said.hint, process.env) }),
  }
  if (options.machine) {
    writeJson({ error }, options.jsonl ? undefined : 2)
    return
  }
  const { noteColors } = openTerminal({ json: false, jsonl: false, color: options.color, input: false })
  write('stderr', `${noteColors.red('✗')} ${indentContinuation(error.message)} ${noteColors.dim(`(${error.code})`)}\n`)
  for (const line of lines) write('stderr', `${formatCommands(line, process.env)}\n`)
  if (error.hint) write('stderr', `  ${indentContinuation(error.hint)}\n`)
}

/** Exits when output can no longer be written. A closed pipe is no failure, because the reader may have seen enough; a full disk is one. */
function endOnLostOutput(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') process.exit(process.exitCode ?? 0)
      if (stream !== process.stderr) {
        const why = fileErrorReason(error) ?? error.message
        write('stderr', `✗ the output cannot be written: ${why} (E014)\n`)
      }
      process.exit(1)
    })
  }
}

function flushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    if (stream.writableEnded || stream.destroyed) resolve()
    else stream.write('', () => resolve())
  })
}
