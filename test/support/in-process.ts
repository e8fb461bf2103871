import { vi } from 'vitest'
import { run } from '../../packages/cli/src/main.js'

export interface InProcess {
  code: number
  stdout: string
  stderr: string
}

/** Runs a command of the command line in this process, with colours as at a terminal. */
export async function runInProcess(line: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<InProcess> {
  const written = { stdout: '', stderr: '' }
  const restore = (['stdout', 'stderr'] as const).map((name) => {
    const stream = process[name]
    const spy = vi.spyOn(stream, 'write').mockImplementation((chunk: unknown) => {
      written[name] += String(chunk)
      return true
    })
    const tty = Object.getOwnPropertyDescriptor(stream, 'isTTY')
    Object.defineProperty(stream, 'isTTY', { value: name === 'stdout', configurable: true })
    return () => {
      spy.mockRestore()
      if (tty) Object.defineProperty(stream, 'isTTY', tty)
      else Reflect.deleteProperty(stream, 'isTTY')
    }
  })
  const wanted: NodeJS.ProcessEnv = { TERM: 'xterm', NO_COLOR: '', ...env }
  const before = Object.fromEntries(Object.keys(wanted).map((name) => [name, process.env[name] ?? '']))
  Object.assign(process.env, wanted)
  try {
    return { code: await run([...line, '--no-input']), ...written }
  } finally {
    for (const undo of restore) undo()
    Object.assign(process.env, before)
  }
}
