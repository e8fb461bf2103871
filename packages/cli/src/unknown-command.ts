import type { AddHelpTextContext, Command } from 'commander'

/** Commander's code for a line that names no command to run. Commander prints the help in this case; here it is still an error. */
const NO_COMMAND = 'commander.help'
const UNKNOWN_COMMAND = 'commander.unknownCommand'
const SURPLUS_ARGUMENT = 'commander.excessArguments'

/** Returns an error message in commander's wording for a line that names no command, or `undefined` if the error is another one. */
export function missingCommandMessage(error: { code: string }, program: Command): string | undefined {
  if (error.code !== NO_COMMAND) return undefined
  const { command, next } = followed(program.args, program)
  if (next !== undefined) return unknownText(command, next)
  return `${fullName(command)} needs a command\n(One of: ${command.commands.map((child) => child.name()).join(', ')})`
}

/** Returns commander's message for an unknown command, including its suggestion. */
function unknownText(command: Command, word: string): string {
  try {
    command.args = [word]
    return refuse(command)
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

/**
 * Returns a hint for two faults that commander explains too briefly, or `undefined` for others: an unknown command that is a subcommand of another
 * command, and an argument where a command takes options only.
 */
export function usageHint({ code }: { code: string }, argv: readonly string[], program: Command): string | undefined {
  const { command, next } = followed(argv, program)
  if (code === UNKNOWN_COMMAND || code === NO_COMMAND) {
    const found = next === undefined ? [] : commandsNamed(program, next)
    return found.length > 0 ? `did you mean: ${found.map(fullName).join(', ')}` : undefined
  }
  if (code !== SURPLUS_ARGUMENT || command.registeredArguments.length > 0) return undefined
  const options = command.options.filter(({ hidden, required }) => required && !hidden).map(({ flags }) => flags)
  return options.length > 0 ? `${fullName(command)} takes options only: ${options.join(', ')}` : undefined
}

function commandsNamed(command: Command, name: string): Command[] {
  return command.commands.flatMap((child) => [...(child.name() === name ? [child] : []), ...commandsNamed(child, name)])
}

/** Returns the command that a line names, as far as it can be followed: `passover policy diff`. */
export function namedCommand(argv: readonly string[], program: Command): string {
  return fullName(followed(argv, program).command)
}

interface Followed {
  command: Command
  /** First word after the command that is neither an option nor the value of one. */
  next: string | undefined
}

/** Follows the words of a line through the command tree. Skips options and their values, because a value can equal the name of a command. */
function followed(argv: readonly string[], program: Command): Followed {
  let command = program
  for (let at = 0; at < argv.length; at++) {
    const word = argv[at] ?? ''
    if (word.startsWith('-')) {
      if (takesNext(command, word, argv[at + 1])) at++
      continue
    }
    if (word === 'help' && command.commands.length > 0) continue
    const found = childNamed(command, word)
    if (!found) return { command, next: word }
    command = found
  }
  return { command, next: undefined }
}

/** True if the word after an option is its value. Options of commands further down the line are unknown here, and to commander too. */
function takesNext(command: Command, word: string, next: string | undefined): boolean {
  const option = lineage(command)
    .flatMap(({ options }) => options)
    .find(({ long, short }) => word === long || word === short)
  if (!option || next === undefined) return false
  return option.required || (option.optional && !next.startsWith('-'))
}

/** Returns a command and its parents, up to the program. */
function lineage(command: Command): Command[] {
  return command.parent ? [command, ...lineage(command.parent)] : [command]
}

function fullName(command: Command): string {
  return lineage(command)
    .map((one) => one.name())
    .reverse()
    .join(' ')
}

/** Throws commander's error for `passover shwo --help`, where commander itself would print the help of the last command that it knows. */
export function refuseUnknown({ command, error }: AddHelpTextContext): string {
  const [word] = command.args
  const known = (name: string) => name === 'help' || childNamed(command, name) !== undefined
  if (error || command.commands.length === 0 || word === undefined || word.startsWith('-') || known(word)) return ''
  return refuse(command)
}

function childNamed(command: Command, word: string): Command | undefined {
  return command.commands.find((child) => child.name() === word || child.aliases().includes(word))
}

/** Throws commander's own error for the first argument of a command, which its types do not declare. */
function refuse(command: Command): never {
  return (command as Command & { unknownCommand(): never }).unknownCommand()
}
