import { type Colors, createColors } from './colors.js'
import { cutColumns, formatCommands, oneLine } from './text.js'
import { write, writeJson } from './writer.js'

/** What a command is written to and asks from. `--json` and `--jsonl` silence everything but the result. */
export interface Terminal {
  readonly mode: 'human' | 'json' | 'jsonl'
  /** For stdout. */
  readonly colors: Colors
  /** For stderr. */
  readonly noteColors: Colors
  /** May a question be asked? */
  readonly interactive: boolean
  /** Columns of stdout when it is a terminal. */
  readonly columns: number | undefined
  /** The result: a document with --json, text else. */
  show(value: unknown, human: () => string): void
  /** One element of a stream: a line of JSON, or text (undefined: nothing to say to people). */
  stream(value: unknown, human: () => string | undefined): void
  /** A remark to people, on stderr. */
  note(text: string): void
  /** Content that a person decides about, on stderr: unlike a remark, commands in it are not rewritten for npx. */
  exhibit(text: string): void
  /** What is going on, on stderr: a spinner on a terminal, else one line for each change. */
  progress(): Progress
}

export interface Progress {
  /** It replaces itself, so that saying something at once costs no line. */
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

/** Colour is off when not a terminal, with NO_COLOR, TERM=dumb or --no-color. */
export function wantsColor(options: { color: boolean; tty: boolean; env: NodeJS.ProcessEnv }): boolean {
  return options.color && options.tty && !options.env.NO_COLOR && options.env.TERM !== 'dumb'
}

/** Questions are asked only where stdin and stdout are terminals, CI is unset and nothing forbids them. */
export function isInteractive(options: {
  input: boolean
  json: boolean
  stdin: boolean
  stdout: boolean
  env: NodeJS.ProcessEnv
}): boolean {
  return options.input && !options.json && options.stdin && options.stdout && !options.env.CI
}

/** The terminal of this process. */
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

/** Columns of the spinner's own picture, and one to spare. */
const SPINNER = 4

function spinner(): Progress {
  let wanted = ''
  let stopped = false
  let running: { text: string; stop(): unknown } | undefined
  // The package is loaded when the first word is said: a command that is quick never pays for it.
  const start = async () => {
    const { default: yoctoSpinner } = await import('yocto-spinner')
    if (!stopped) running = yoctoSpinner({ text: wanted, stream: process.stderr, handleSignals: false }).start()
  }
  return {
    live: true,
    say(text) {
      const first = wanted === ''
      // A longer text would be wrapped by the terminal.
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
