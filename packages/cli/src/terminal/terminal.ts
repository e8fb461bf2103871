import { type Colors, createColors } from './colors.js'
import { cutColumns, formatCommands, oneLine } from './text.js'
import { write, writeJson } from './writer.js'

/** Output and input of a command. With `--json` and `--jsonl`, stdout has only the result, and there are no colours, questions or progress. */
export interface Terminal {
  readonly mode: 'human' | 'json' | 'jsonl'
  /** Colours for stdout. */
  readonly colors: Colors
  /** Colours for stderr. */
  readonly noteColors: Colors
  /** True if the command may ask questions. */
  readonly interactive: boolean
  /** Number of columns if stdout is a terminal. */
  readonly columns: number | undefined
  /** Prints the result: a document with --json, otherwise text. */
  show(value: unknown, human: () => string): void
  /** Prints one element of a stream: a line of JSON, or text (`undefined` prints nothing in human mode). */
  stream(value: unknown, human: () => string | undefined): void
  /** Prints a remark for people on stderr. */
  note(text: string): void
  /** Prints content that a person decides about on stderr. Unlike in a remark, commands in it are not rewritten for npx. */
  exhibit(text: string): void
  /** Shows progress on stderr: a spinner on a terminal, otherwise one line for each change. */
  progress(): Progress
}

export interface Progress {
  /** True if each message replaces the previous one, so that an early message does not cost a line. */
  readonly live: boolean
  say(text: string): void
  stop(): void
}

export interface TerminalOptions {
  json: boolean
  jsonl: boolean
  color: boolean
  input: boolean
}

/** True if colour is wanted: on a terminal, without NO_COLOR, TERM=dumb or --no-color. */
export function wantsColor(options: { color: boolean; tty: boolean; env: NodeJS.ProcessEnv }): boolean {
  return options.color && options.tty && !options.env.NO_COLOR && options.env.TERM !== 'dumb'
}

/** True if questions may be asked: stdin and stdout are terminals, CI is unset, and no option forbids it. */
export function isInteractive(options: {
  input: boolean
  json: boolean
  stdin: boolean
  stdout: boolean
  env: NodeJS.ProcessEnv
}): boolean {
  return options.input && !options.json && options.stdin && options.stdout && !options.env.CI
}

/** Opens the terminal of this process. */
export function openTerminal(options: TerminalOptions): Terminal {
  const { stdin, stdout, stderr, env } = process
  const machine = options.json || options.jsonl
  const colored = (tty: boolean) => wantsColor({ color: options.color && !machine, tty, env })
  const mode = options.jsonl ? 'jsonl' : options.json ? 'json' : 'human'
  const noteColors = createColors(colored(Boolean(stderr.isTTY)))
  return {
    mode,
    colors: createColors(colored(Boolean(stdout.isTTY))),
    noteColors,
    interactive: isInteractive({ input: options.input, json: machine, stdin: Boolean(stdin.isTTY), stdout: Boolean(stdout.isTTY), env }),
    columns: stdout.isTTY && stdout.columns > 0 ? stdout.columns : undefined,
    show(value, human) {
      if (mode !== 'human') return writeJson(value, mode === 'json' ? 2 : undefined)
      const text = human()
      write('stdout', text.endsWith('\n') ? text : `${text}\n`)
    },
    stream(value, human) {
      if (mode !== 'human') return writeJson(value)
      const text = human()
      if (text !== undefined) write('stdout', `${text}\n`)
    },
    note(text) {
      write('stderr', `${formatCommands(text, env)}\n`)
    },
    exhibit(text) {
      write('stderr', `${text}\n`)
    },
    progress() {
      if (machine) return { live: false, say() {}, stop() {} }
      return stderr.isTTY && env.TERM !== 'dumb' ? spinner() : lines(noteColors)
    },
  }
}

function lines(colors: Colors): Progress {
  let last = ''
  return {
    live: false,
    say(text) {
      if (text === last) return
      last = text
      write('stderr', `${colors.dim('…')} ${formatCommands(text, process.env)}\n`)
    },
    stop() {},
  }
}

/** Columns of the spinner itself, plus a spare one. */
const SPINNER = 4

function spinner(): Progress {
  let wanted = ''
  let stopped = false
  let running: { text: string; stop(): unknown } | undefined
  // The package is loaded at the first message, so that quick commands do not pay for it.
  const start = async () => {
    const { default: yoctoSpinner } = await import('yocto-spinner')
    if (!stopped) running = yoctoSpinner({ text: wanted, stream: process.stderr, handleSignals: false }).start()
  }
  return {
    live: true,
    say(text) {
      const first = wanted === ''
      // The terminal would wrap a longer text.
      wanted = cutColumns(oneLine(formatCommands(text, process.env)), (process.stderr.columns || 80) - SPINNER)
      if (running) running.text = wanted
      else if (first) void start()
    },
    stop() {
      stopped = true
      running?.stop()
      running = undefined
    },
  }
}
