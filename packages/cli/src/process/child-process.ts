import { type ChildProcessWithoutNullStreams, type StdioOptions, spawn } from 'node:child_process'
import { constants } from 'node:os'
import { type Readable, Writable } from 'node:stream'
import { spawnWithoutInherited } from './inherited-descriptors.js'

export interface ChildOptions {
  command: string[]
  input: string
  env: NodeJS.ProcessEnv
  cwd: string
  signal: AbortSignal
  /** Milliseconds between SIGTERM and SIGKILL. */
  kill_after_ms: number
  /** Maximum bytes of stdout that are kept; a command that writes more is killed. */
  max_output_bytes: number
  /** Attaches limits and guards to the running command. `leader` is its process id, and that of its group. */
  attend?(leader: number): ChildControl
  /** True if the command waits for a line on descriptor 3, which is written when everything in `attend` is ready. */
  gated: boolean
  /** Seccomp program that the command's sandbox reads from descriptor 4. */
  filter?: Buffer | undefined
  /** True if the command runs below another program, which reports a signal that ended it as exit code 128 + n. */
  shifted_signals?: boolean
  /** Called for each line of the command's stderr. */
  onStderr(line: string): void
}

export interface ChildControl {
  ready: Promise<void>
  ends: Disposable[]
}

export interface ChildEnd {
  /** Exit code; `null` if `signal` ended the process. */
  exit: number | null
  signal: NodeJS.Signals | null
  stdout: string
  /** Last part of stderr, at most 8 KiB. */
  stderr: string
  overflowed: boolean
}

const STDERR_KEPT = 8192
/** Milliseconds for pending output after SIGKILL. */
const DETACHED_MS = 200

/** Runs a command in its own process group. On abort, the whole group gets SIGTERM, then SIGKILL. */
export function runChild(options: ChildOptions): Promise<ChildEnd> {
  const [program = '', ...args] = options.command
  return new Promise((resolve, reject) => {
    const pipes = ['pipe', 'pipe', 'pipe', options.gated ? 'pipe' : 'ignore', options.filter ? 'pipe' : 'ignore'] as const
    const fixed = { cwd: options.cwd, env: options.env, detached: process.platform !== 'win32' }
    const start = (stdio: StdioOptions) => spawn(program, args, { ...fixed, stdio })
    const child = spawnWithoutInherited(pipes, start) as ChildProcessWithoutNullStreams
    const group = killer(child.pid, options.kill_after_ms)
    const attending = child.pid === undefined ? undefined : options.attend?.(child.pid)
    send(child.stdio[4], options.filter)
    void Promise.resolve(attending?.ready).then(() => send(child.stdio[3], '\n'))
    const output = collect(options.max_output_bytes, () => group.kill('SIGKILL'))
    const errors = lines(options.onStderr)
    const onAbort = () => group.end()
    if (options.signal.aborted) onAbort()
    options.signal.addEventListener('abort', onAbort, { once: true })
    child.stdout.on('data', output.add)
    child.stderr.on('data', errors.add)
    // A command that does not read its input closes the pipe, which is allowed.
    child.stdin.on('error', () => {})
    child.stdin.end(options.input)
    let detached: NodeJS.Timeout | undefined
    const settle = () => {
      clearTimeout(detached)
      options.signal.removeEventListener('abort', onAbort)
      group.done()
      for (const one of attending?.ends ?? []) one[Symbol.dispose]()
    }
    child.once('error', (error) => {
      settle()
      reject(error)
    })
    child.once('exit', () => {
      // Processes that the command left running would keep the pipes open.
      group.end()
      // A process that left the group, where nothing else ends it, must not delay the result, so this side closes the pipes.
      detached = setTimeout(() => {
        child.stdout.destroy()
        child.stderr.destroy()
      }, options.kill_after_ms + DETACHED_MS)
    })
    child.once('close', (code, by) => {
      settle()
      errors.end()
      const signal = by ?? (options.shifted_signals ? signalOf(code) : null)
      const exit = signal === null ? code : null
      resolve({ exit, signal, stdout: output.text(), stderr: errors.tail(), overflowed: output.overflowed() })
    })
  })
}

/** Writes to a pipe. Ignores errors, because a command that has ended closes its end. */
function send(pipe: Writable | Readable | null | undefined, content: string | Buffer | undefined): void {
  if (content === undefined || !(pipe instanceof Writable)) return
  pipe.on('error', () => {})
  pipe.end(content)
}

function signalOf(code: number | null): NodeJS.Signals | null {
  const found = Object.entries(constants.signals).find(([, number]) => code === 128 + number)
  return found ? (found[0] as NodeJS.Signals) : null
}

const running = new Set<number>()

/** Kills all process groups as a last resort when the worker must end at once, so that no command outlives it. */
export function killAllGroups(): void {
  for (const pid of running) signalGroup(pid, 'SIGKILL')
}

function killer(pid: number | undefined, killAfter: number) {
  let timer: NodeJS.Timeout | undefined
  if (pid !== undefined) running.add(pid)
  const kill = (signal: NodeJS.Signals) => {
    if (pid !== undefined) signalGroup(pid, signal)
  }
  return {
    kill,
    end() {
      kill('SIGTERM')
      timer ??= setTimeout(() => kill('SIGKILL'), killAfter)
    },
    done() {
      clearTimeout(timer)
      if (pid === undefined) return
      kill('SIGKILL')
      running.delete(pid)
    },
  }
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(process.platform === 'win32' ? pid : -pid, signal)
  } catch {
    // The group is gone.
  }
}

function collect(limit: number, onOverflow: () => void) {
  const chunks: Buffer[] = []
  let size = 0
  return {
    add(chunk: Buffer) {
      size += chunk.length
      if (size <= limit) chunks.push(chunk)
      else onOverflow()
    },
    text: () => Buffer.concat(chunks).toString('utf8'),
    overflowed: () => size > limit,
  }
}

function lines(onLine: (line: string) => void) {
  const decoder = new TextDecoder()
  let rest = ''
  let kept = ''
  return {
    add(chunk: Buffer) {
      const text = decoder.decode(chunk, { stream: true })
      kept = (kept + text).slice(-STDERR_KEPT)
      const pieces = (rest + text).split('\n')
      rest = (pieces.pop() ?? '').slice(-STDERR_KEPT)
      for (const piece of pieces) onLine(piece)
    },
    end() {
      if (rest !== '') onLine(rest)
      rest = ''
    },
    tail: () => kept,
  }
}
