import { vi } from 'vitest'
import { run } from '../../../packages/cli/src/main.js'

export interface InProcess {
  code: number
  stdout: string
  stderr: string
}

export type Written = Pick<InProcess, 'stdout' | 'stderr'>

/**
 * Runs a command of the command line in this process, with colours as at a terminal.
 *
 * @param meanwhile For a command that runs until it is stopped: what happens while it runs. Its end is the signal to stop.
 * @param columns Of the terminal; lines are left as they are without it.
 */
export async function runInProcess(
  line: readonly string[],
  env: NodeJS.ProcessEnv = {},
  meanwhile?: (written: Written) => Promise<void>,
  columns?: number,
): Promise<InProcess> {
  const written = { stdout: '', stderr: '' }
  const restore = (['stdout', 'stderr'] as const).map((name) => {
    const stream = process[name]
    const spy = vi.spyOn(stream, 'write').mockImplementation((chunk: unknown) => {
      written[name] += String(chunk)
      return true
    })
    const undo = [replaced(stream, 'isTTY', name === 'stdout'), replaced(stream, 'columns', name === 'stdout' ? columns : undefined)]
    return () => {
      spy.mockRestore()
      for (const one of undo) one()
    }
  })
  const wanted: NodeJS.ProcessEnv = { TERM: 'xterm', NO_COLOR: '', ...env }
  const before = Object.fromEntries(Object.keys(wanted).map((name) => [name, process.env[name] ?? '']))
  Object.assign(process.env, wanted)
  try {
    const ended = run(withoutQuestions(line))
    // SIGHUP is the one signal that a test runner does not listen to.
    await meanwhile?.(written).finally(async () => {
      process.emit('SIGHUP')
      await ended
    })
    return { code: await ended, ...written }
  } finally {
    for (const undo of restore) undo()
    Object.assign(process.env, before)
  }
}

/** Sets a property until the function that it returns is called. */
function replaced(object: object, name: string, value: unknown): () => void {
  const before = Object.getOwnPropertyDescriptor(object, name)
  Object.defineProperty(object, name, { value, configurable: true })
  return () => void (before ? Object.defineProperty(object, name, before) : Reflect.deleteProperty(object, name))
}

/** Adds `--no-input` before the command of a worker. */
function withoutQuestions(line: readonly string[]): string[] {
  const at = line.indexOf('--')
  return at < 0 ? [...line, '--no-input'] : [...line.slice(0, at), '--no-input', ...line.slice(at)]
}
