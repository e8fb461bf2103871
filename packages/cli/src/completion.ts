import type { Command, Option } from 'commander'

/** The command tree as far as completion needs it. */
export interface CommandNode {
  name: string
  description: string
  options: OptionNode[]
  commands: CommandNode[]
}

export interface OptionNode {
  flags: string[]
  description: string
  takesValue: boolean
  choices: string[]
}

/** Reads the tree off the program, so that completion never falls behind the commands. */
export function commandTree(command: Command): CommandNode {
  return {
    name: command.name(),
    description: firstLine(command.description()),
    options: command.options.filter((option) => !option.hidden).map(optionNode),
    commands: command.commands.map(commandTree),
  }
}

function optionNode(option: Option): OptionNode {
  return {
    flags: [option.short, option.long].filter((flag): flag is string => Boolean(flag)),
    description: firstLine(option.description),
    takesValue: option.required || option.optional,
    choices: option.argChoices ?? [],
  }
}

function firstLine(text: string): string {
  return text.split('\n')[0] ?? ''
}

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

/** The completion script of a shell. */
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

/** Every command with the path that leads to it; the program's own path is empty. */
function everyCommand(tree: CommandNode, path: string[] = []): { path: string[]; node: CommandNode }[] {
  return [{ path, node: tree }, ...tree.commands.flatMap((child) => everyCommand(child, [...path, child.name]))]
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

/** A quoted expansion of a shell. */
function expand(inner: string): string {
  return `"\${${inner}}"`
}

function valuesOf(tree: CommandNode): { flag: string; choices: string[] }[] {
  return everyCommand(tree).flatMap(({ node }) =>
    node.options.filter((option) => option.takesValue).flatMap((option) => option.flags.map((flag) => ({ flag, choices: option.choices }))),
  )
}

/** Walks the words before the cursor to the command they name; both bash and zsh read it. */
function walk(tree: CommandNode, words: string): string[] {
  const paths = everyCommand(tree).slice(1)
  const valued = [...new Set(valuesOf(tree).map(({ flag }) => flag))]
  return [
    '  local path="" word skip=""',
    `  for word in ${words}; do`,
    '    if [[ -n "$skip" ]]; then skip=""; continue; fi',
    `    case "$word" in`,
    ...(valued.length > 0 ? [`      ${valued.join('|')}) skip=1; continue ;;`] : []),
    '      -*) continue ;;',
    '    esac',
    '    case "$path $word" in',
    ...paths.map(({ path }) => `      ${quote(`${path.slice(0, -1).join('/')} ${path.at(-1)}`)}) path=${quote(path.join('/'))} ;;`),
    '    esac',
    '  done',
  ]
}

function bash(tree: CommandNode): string {
  const choices = new Map(valuesOf(tree).map(({ flag, choices }) => [flag, choices]))
  const globals = tree.options.flatMap((option) => option.flags)
  return [
    '# passover completion for bash: eval "$(passover completion bash)"',
    '_passover() {',
    `  local current=${expand('COMP_WORDS[COMP_CWORD]')} previous=${expand('COMP_WORDS[COMP_CWORD-1]')}`,
    '  case "$previous" in',
    ...[...choices].map(
      ([flag, values]) =>
        `    ${flag}) COMPREPLY=(${values.length > 0 ? `$(compgen -W ${quote(values.join(' '))} -- "$current")` : '$(compgen -f -- "$current")'}); return ;;`,
    ),
    '  esac',
    ...walk(tree, expand('COMP_WORDS[@]:1:COMP_CWORD-1')),
    '  local words=""',
    '  case "$path" in',
    ...everyCommand(tree).map(({ path, node }) => {
      const words = [
        ...node.commands.map((child) => child.name),
        ...node.options.flatMap((option) => option.flags),
        ...(path.length > 0 ? globals : []),
        '--help',
      ]
      return `    ${quote(path.join('/'))}) words=${quote([...new Set(words)].join(' '))} ;;`
    }),
    '  esac',
    '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
    '}',
    'complete -o default -F _passover passover',
    '',
  ].join('\n')
}

function zsh(tree: CommandNode): string {
  const described = (name: string, description: string) => quote(`${name.replaceAll(':', '\\:')}:${description}`)
  const choices = new Map(
    valuesOf(tree)
      .filter(({ choices }) => choices.length > 0)
      .map(({ flag, choices }) => [flag, choices]),
  )
  return [
    '#compdef passover',
    '# passover completion for zsh: eval "$(passover completion zsh)"',
    '_passover() {',
    '  local -a candidates',
    `  case ${expand('words[CURRENT-1]')} in`,
    ...[...choices].map(
      ([flag, values]) => `    ${flag}) candidates=(${values.map(quote).join(' ')}); _describe value candidates; return ;;`,
    ),
    '  esac',
    ...walk(tree, expand('words[@]:1:CURRENT-2')),
    '  case "$path" in',
    ...everyCommand(tree).map(({ path, node }) => {
      const options = [...node.options, ...(path.length > 0 ? tree.options : [])]
      const entries = [
        ...node.commands.map((child) => described(child.name, child.description)),
        ...options.flatMap((option) => option.flags.map((flag) => described(flag, option.description))),
      ]
      return `    ${quote(path.join('/'))}) candidates=(${entries.join(' ')}) ;;`
    }),
    '  esac',
    '  _describe command candidates || _files',
    '}',
    'compdef _passover passover',
    '',
  ].join('\n')
}

function fish(tree: CommandNode): string {
  const top = tree.commands.map((child) => child.name)
  const lines = ['# passover completion for fish: passover completion fish | source', 'complete -c passover -f']
  for (const option of tree.options) lines.push(fishOption(option, undefined))
  for (const child of tree.commands) {
    lines.push(`complete -c passover -n "not __fish_seen_subcommand_from ${top.join(' ')}" -a ${child.name} -d ${quote(child.description)}`)
    for (const option of child.options) lines.push(fishOption(option, `__fish_seen_subcommand_from ${child.name}`))
    for (const grandchild of child.commands) {
      lines.push(
        `complete -c passover -n "__fish_seen_subcommand_from ${child.name}" -a ${grandchild.name} -d ${quote(grandchild.description)}`,
      )
      for (const option of grandchild.options) lines.push(fishOption(option, `__fish_seen_subcommand_from ${grandchild.name}`))
    }
  }
  return `${lines.join('\n')}\n`
}

function fishOption(option: OptionNode, when: string | undefined): string {
  const flags = option.flags.map((flag) => (flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`)).join(' ')
  const value = option.choices.length > 0 ? ` -x -a ${quote(option.choices.join(' '))}` : option.takesValue ? ' -r -F' : ''
  return `complete -c passover${when ? ` -n "${when}"` : ''} ${flags}${value} -d ${quote(option.description)}`
}
