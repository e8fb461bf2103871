import type { Command, Option } from 'commander'

/** Parts of the command tree that completion needs. */
export interface CommandNode {
  name: string
  description: string
  options: OptionNode[]
  commands: CommandNode[]
  /** Kind of the first argument's values, if the server knows them. */
  argument?: CompletedValues | undefined
}

/** Kind of values that only the server knows: names of agents, ids of passes. `passover completion <values>` prints them. */
export type CompletedValues = 'agents' | 'ids'

export interface OptionNode {
  flags: string[]
  description: string
  takesValue: boolean
  choices: string[]
  values?: CompletedValues | undefined
}

/** Builds the tree from the program, so that completion always matches the commands. */
export function commandTree(command: Command): CommandNode {
  return {
    name: command.name(),
    description: firstLine(command.description()),
    options: command.options.filter((option) => !option.hidden).map(optionNode),
    commands: command.commands.map(commandTree),
    argument: argumentOf(command),
  }
}

/**
 * Values of a command's first argument, by the argument's name. Not used for UNCOMPLETED_COMMANDS, whose argument is something else, such as a
 * new name, a version or a token.
 */
const ARGUMENTS: Record<string, CompletedValues> = { id: 'ids', ids: 'ids', agent: 'agents', name: 'agents', from: 'agents', to: 'agents' }
const UNCOMPLETED_COMMANDS = new Set(['add', 'diff', 'revoke'])

function argumentOf(command: Command): CompletedValues | undefined {
  const [first] = command.registeredArguments
  return first && !UNCOMPLETED_COMMANDS.has(command.name()) ? ARGUMENTS[first.name()] : undefined
}

function optionNode(option: Option): OptionNode {
  return {
    flags: [option.short, option.long].filter((flag): flag is string => Boolean(flag)),
    description: firstLine(option.description),
    takesValue: option.required || option.optional,
    choices: option.argChoices ?? [],
    values: option.flags.endsWith('<agent>') ? 'agents' : option.long === '--pass' ? 'ids' : undefined,
  }
}

function firstLine(text: string): string {
  return text.split('\n')[0] ?? ''
}

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

/** Returns the completion script of a shell. */
export function completionScript(shell: Shell, tree: CommandNode): string {
  switch (shell) {
    case 'bash':
      return bash(tree)
    case 'zsh':
      return zsh(tree)
    case 'fish':
      return fish(tree)
  }
}

/** Returns every command with its path. The program's own path is empty. */
function everyCommand(tree: CommandNode, path: string[] = []): { path: string[]; node: CommandNode }[] {
  return [{ path, node: tree }, ...tree.commands.flatMap((child) => everyCommand(child, [...path, child.name]))]
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

/** Returns a quoted shell expansion. */
function expand(inner: string): string {
  return `"\${${inner}}"`
}

function valuesOf(tree: CommandNode): (Pick<OptionNode, 'choices' | 'values'> & { flag: string })[] {
  return everyCommand(tree).flatMap(({ node }) =>
    node.options
      .filter((option) => option.takesValue)
      .flatMap(({ flags, choices, values }) => flags.map((flag) => ({ flag, choices, values }))),
  )
}

/** Returns a shell function that asks the server by running the program the way it was typed. It offers nothing if that fails. */
function asks(run: string): string[] {
  return ['_passover_values() {', `  command ${run} completion "$1" 2>/dev/null`, '}']
}

/**
 * Generates the code that follows the words before the cursor to the command they name. Works in both bash and zsh. The variable is not
 * called `path`, which zsh ties to `$PATH`.
 */
function walk(tree: CommandNode, words: string): string[] {
  const paths = everyCommand(tree).slice(1)
  const valued = [...new Set(valuesOf(tree).map(({ flag }) => flag))]
  return [
    '  local route="" word skip=""',
    `  for word in ${words}; do`,
    '    if [[ -n "$skip" ]]; then skip=""; continue; fi',
    `    case "$word" in`,
    ...(valued.length > 0 ? [`      ${valued.join('|')}) skip=1; continue ;;`] : []),
    '      -*) continue ;;',
    '    esac',
    '    case "$route $word" in',
    ...paths.map(({ path }) => `      ${quote(`${path.slice(0, -1).join('/')} ${path.at(-1)}`)}) route=${quote(path.join('/'))} ;;`),
    '    esac',
    '  done',
  ]
}

function bash(tree: CommandNode): string {
  const values = new Map(valuesOf(tree).map((one) => [one.flag, one]))
  const offered = (list: string) => `COMPREPLY=($(compgen -W ${list} -- "$current"))`
  const globals = tree.options.flatMap((option) => option.flags)
  return [
    '# passover completion for bash: eval "$(npx passover completion bash)"',
    ...asks(`\${_passover_program:-passover}`),
    '_passover() {',
    `  local current=${expand('COMP_WORDS[COMP_CWORD]')} previous=${expand('COMP_WORDS[COMP_CWORD-1]')}`,
    '  case "$previous" in',
    ...[...values.values()].map(({ flag, choices, values: asked }) => {
      if (asked) return `    ${flag}) ${offered(`"$(_passover_values ${asked})"`)}; return ;;`
      return `    ${flag}) ${choices.length > 0 ? offered(quote(choices.join(' '))) : 'COMPREPLY=($(compgen -f -- "$current"))'}; return ;;`
    }),
    '  esac',
    ...walk(tree, expand('COMP_WORDS[@]:1:COMP_CWORD-1')),
    '  local words="" values=""',
    '  case "$route" in',
    ...everyCommand(tree).map(({ path, node }) => {
      const words = [
        ...node.commands.map((child) => child.name),
        ...node.options.flatMap((option) => option.flags),
        ...(path.length > 0 ? globals : []),
        '--help',
      ]
      const asked = node.argument ? ` values=${node.argument}` : ''
      return `    ${quote(path.join('/'))}) words=${quote([...new Set(words)].join(' '))}${asked} ;;`
    }),
    '  esac',
    '  if [[ -n "$values" && "$current" != -* ]]; then words="$words $(_passover_values "$values")"; fi',
    `  ${offered('"$words"')}`,
    '}',
    'complete -o default -F _passover passover',
    '# npx passover …, npx @passover/cli … (bash takes the @ for a word of its own)',
    '_passover_npx() {',
    '  local at=1',
    `  if [[ ${expand('COMP_WORDS[1]')} == @ ]]; then at=2; fi`,
    `  case ${expand('COMP_WORDS[at]')} in`,
    '    passover) local _passover_program="npx --no passover" ;;',
    '    passover/cli|@passover/cli) local _passover_program="npx --no @passover/cli" ;;',
    '    *) return ;;',
    '  esac',
    '  if (( COMP_CWORD <= at )); then return; fi',
    `  local COMP_WORDS=(${expand('COMP_WORDS[@]:at')}) COMP_CWORD=$(( COMP_CWORD - at ))`,
    '  _passover',
    '}',
    'complete -p npx >/dev/null 2>&1 || complete -o default -F _passover_npx npx',
    '',
  ].join('\n')
}

function zsh(tree: CommandNode): string {
  const described = (name: string, description: string) => quote(`${name.replaceAll(':', '\\:')}:${description}`)
  const values = new Map(
    valuesOf(tree)
      .filter(({ choices, values: asked }) => asked || choices.length > 0)
      .map((one) => [one.flag, one]),
  )
  const asked = (kind: CompletedValues) => `candidates=(${'$'}{(f)"$(_passover_values ${kind})"})`
  return [
    '#compdef passover',
    '# passover completion for zsh: eval "$(npx passover completion zsh)"',
    ...asks(`\${=_passover_program:-passover}`),
    '_passover() {',
    '  local -a candidates',
    '  local values=""',
    `  case ${expand('words[CURRENT-1]')} in`,
    ...[...values.values()].map(
      ({ flag, choices, values: kind }) =>
        `    ${flag}) ${kind ? asked(kind) : `candidates=(${choices.map(quote).join(' ')})`}; _describe value candidates; return ;;`,
    ),
    '  esac',
    ...walk(tree, expand('(@)words[2,CURRENT-1]')),
    '  case "$route" in',
    ...everyCommand(tree).map(({ path, node }) => {
      const options = [...node.options, ...(path.length > 0 ? tree.options : [])]
      const entries = [
        ...node.commands.map((child) => described(child.name, child.description)),
        ...options.flatMap((option) => option.flags.map((flag) => described(flag, option.description))),
      ]
      return `    ${quote(path.join('/'))}) candidates=(${entries.join(' ')})${node.argument ? ` values=${node.argument}` : ''} ;;`
    }),
    '  esac',
    `  if [[ -n "$values" && "$PREFIX" != -* ]]; then candidates+=(\${(f)"$(_passover_values "$values")"}); fi`,
    '  _describe command candidates || _files',
    '}',
    'compdef _passover passover',
    '# npx passover …, npx @passover/cli …',
    '_passover_npx() {',
    '  if (( CURRENT > 2 )) && [[ $words[2] == (passover|@passover/cli) ]]; then',
    '    local _passover_program="npx --no $words[2]"',
    '    shift words',
    '    (( CURRENT-- ))',
    '    _passover',
    '  else',
    '    _files',
    '  fi',
    '}',
    '(( $+_comps[npx] )) || compdef _passover_npx npx',
    '',
  ].join('\n')
}

function fish(tree: CommandNode): string {
  const typed = (program: string, when: string) =>
    fishLines(tree, { program, when, run: program === 'npx' ? 'npx --no passover' : 'passover' })
  return [
    '# passover completion for fish: npx passover completion fish | source',
    'complete -c passover -f',
    ...typed('passover', ''),
    ...typed('npx', '__fish_seen_subcommand_from passover @passover/cli; and '),
    '',
  ].join('\n')
}

interface Typed {
  program: string
  /** Condition that precedes the condition of each line. */
  when: string
  /** Command that runs the program. */
  run: string
}

function fishLines(tree: CommandNode, typed: Typed): string[] {
  const top = tree.commands.map((child) => child.name)
  const lines: string[] = []
  const complete = (when: string, rest: string) => lines.push(`complete -c ${typed.program} -n "${typed.when}${when}" ${rest}`)
  const options = (node: CommandNode, when: string) => {
    for (const option of node.options) complete(when, fishOption(option, typed))
  }
  options(tree, 'true')
  for (const child of tree.commands) {
    const seen = `__fish_seen_subcommand_from ${child.name}`
    complete(`not __fish_seen_subcommand_from ${top.join(' ')}`, `-a ${child.name} -d ${quote(child.description)}`)
    options(child, seen)
    if (child.argument) complete(seen, `-f -a ${fishValues(child.argument, typed)}`)
    for (const grandchild of child.commands) {
      complete(seen, `-a ${grandchild.name} -d ${quote(grandchild.description)}`)
      const both = `${seen}; and __fish_seen_subcommand_from ${grandchild.name}`
      options(grandchild, both)
      if (grandchild.argument) complete(both, `-f -a ${fishValues(grandchild.argument, typed)}`)
    }
  }
  return lines
}

function fishValues(values: CompletedValues, { run }: Typed): string {
  return `'(${run} completion ${values} 2>/dev/null)'`
}

function fishOption(option: OptionNode, typed: Typed): string {
  const flags = option.flags.map((flag) => (flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`)).join(' ')
  const { choices, values, takesValue } = option
  const value = values
    ? ` -x -a ${fishValues(values, typed)}`
    : choices.length > 0
      ? ` -x -a ${quote(choices.join(' '))}`
      : takesValue
        ? ' -r -F'
        : ''
  return `${flags}${value} -d ${quote(option.description)}`
}
