import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { ignoredText } from '@passover/sdk/internal/project'
import type { Command } from 'commander'
import { ExitError, usage } from '../errors.js'
import { fileErrorReason } from '../file-error.js'
import { openTerminal, type Terminal } from '../terminal/terminal.js'
import { cut } from '../terminal/text.js'
import { type GlobalFlags, resolvePerson, resolveServer, type ServerSetting, verifiesNames } from './settings.js'

/** Settings that every command gets, resolved once when it starts. */
export interface Context {
  readonly terminal: Terminal
  readonly person: string
  readonly directory: string
  readonly flags: GlobalFlags
  readonly env: NodeJS.ProcessEnv
  /** Resolves the server on first use, because `completion` and `up` work without one. Lists project files that are not trusted on stderr. */
  server(): ServerSetting
  /** Like `server()`, but also prints the server on stderr. For commands that send files, run work or write files. */
  announcedServer(): ServerSetting
}

export function createContext(flags: GlobalFlags, env: NodeJS.ProcessEnv): Context {
  const directory = directoryOf(flags)
  const terminal = openTerminal({ json: flags.json === true, jsonl: flags.jsonl === true, color: flags.color, input: flags.input })
  const person = resolvePerson(flags, env)
  let known: ServerSetting | undefined
  const server = () => {
    if (known) return known
    known = resolveServer(flags, env, directory)
    for (const ignored of known.ignored ?? []) terminal.note(ignoredText(ignored))
    const claimed = flags.as !== undefined || env.PASSOVER_AS !== undefined
    if (claimed && terminal.mode === 'human' && !verifiesNames(known, person))
      terminal.note(terminal.noteColors.dim(`Acting as ${person} (unverified: this server does not verify names)`))
    return known
  }
  return {
    terminal,
    person,
    directory,
    flags,
    env,
    server,
    announcedServer: () => {
      const first = known === undefined
      const setting = server()
      if (first && terminal.mode === 'human') terminal.note(terminal.noteColors.dim(`Server: ${setting.url} (${setting.from})`))
      return setting
    },
  }
}

function directoryOf({ directory = '.' }: GlobalFlags): string {
  try {
    const path = resolve(directory)
    if (statSync(path).isDirectory()) return path
    throw usage(`--directory: ${path} is not a folder`)
  } catch (error) {
    const why = fileErrorReason(error)
    if (why === undefined) throw error
    if ((error as NodeJS.ErrnoException).syscall === 'uv_cwd' || (error as NodeJS.ErrnoException).syscall === 'cwd')
      throw usage('the working directory no longer exists', 'change to an existing folder, or name one: --directory <path>')
    throw usage(`--directory ${cut(directory, 200)}: ${why === 'file not found' ? 'folder not found' : why}`)
  }
}

/** Converts a function on (context, options, arguments) to a commander action. The function resolves to the exit code; `undefined` means 0. */
export function action<Options, Arguments extends unknown[]>(
  body: (context: Context, options: Options, ...given: Arguments) => Promise<number | undefined>,
): (...given: unknown[]) => Promise<void> {
  return async (...given) => {
    const command = given.at(-1) as Command
    const context = createContext(command.optsWithGlobals(), process.env)
    const code = await body(context, optionsOf(command) as Options, ...(command.processedArgs as Arguments))
    if (code) throw new ExitError(code)
  }
}

/**
 * Returns the options of a command. If a parent command has an option of the same name, commander stores its value on the parent wherever
 * it was given, so values that were not given here are read from there.
 */
export function optionsOf(command: Command): Record<string, unknown> {
  const own = command.opts()
  const all = command.optsWithGlobals()
  const names = command.options.map((option) => option.attributeName())
  const given = (name: string) => !['default', undefined].includes(command.getOptionValueSource(name))
  return Object.fromEntries(names.filter((name) => name in all).map((name) => [name, given(name) ? own[name] : all[name]]))
}
