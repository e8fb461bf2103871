import type { AddHelpTextContext, Command } from 'commander'

/** Commander's word for a line that names no command to run; where it ends with help, this is an error all the same. */
const NO_COMMAND = 'commander.help'

/** What is missing in a line that names no command, as commander would say what is wrong; undefined: another fault. */
export function missingCommand(error: { code: string }, program: Command): string | undefined {
  if (error.code !== NO_COMMAND) return undefined
  const words = program.args.filter((word) => !word.startsWith('-'))
  if (words[0] === 'help') words.shift()
  let command = program
  for (const word of words) {
    const found = childNamed(command, word)
    if (!found) return unknownText(command, word)
    command = found
  }
  const name = command === program ? program.name() : `${program.name()} ${words.join(' ')}`
  return `${name} needs a command\n(One of: ${command.commands.map((child) => child.name()).join(', ')})`
}

/** Returns what commander says of a command that it does not know, with its suggestion. */
function unknownText(command: Command, word: string): string {
  try {
    command.args = [word]
    return refuse(command)
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

/** Returns the command that a line names, as far as it names one: `passover policy diff`. */
export function namedCommand(argv: readonly string[], program: Command): string {
  let command = program
  const names = [program.name()]
  for (const word of argv) {
    const found = childNamed(command, word)
    if (!found) continue
    command = found
    names.push(found.name())
  }
  return names.join(' ')
}

/** Commander answers `passover shwo --help` with the help of the last command that it knows: before it does, this throws its own error. */
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
