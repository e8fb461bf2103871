import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

/** One finding of the TypeScript compiler. Line and column from 1. */
export interface Diagnostic {
  path: string
  line: number
  column: number
  code: string
  message: string
}

export interface Build {
  ok: boolean
  diagnostics: Diagnostic[]
  /** What the compiler printed. */
  text: string
  ms: number
}

const LINE = /^(.+?)\((\d+),(\d+)\): error (TS\d+): (.*)$/

/** Reads the compiler's report (`--pretty false`). Indented lines continue the message above. */
export function parseDiagnostics(text: string): Diagnostic[] {
  const found: Diagnostic[] = []
  for (const line of text.split(/\r?\n/)) {
    const [, path, row, column, code, message] = LINE.exec(line) ?? []
    const last = found.at(-1)
    if (path && code && message !== undefined)
      found.push({ path: path.replaceAll('\\', '/'), line: Number(row), column: Number(column), code, message })
    else if (last && /^\s+\S/.test(line)) last.message += ` ${line.trim()}`
  }
  return found
}

/** Really runs the workspace's TypeScript over a folder with a tsconfig.json. */
export async function build(directory: string, signal?: AbortSignal): Promise<Build> {
  const compiler = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
  const began = performance.now()
  const { exit, text } = await run(process.execPath, [compiler, '--project', '.', '--noEmit', '--pretty', 'false'], {
    cwd: directory,
    signal,
  })
  const diagnostics = parseDiagnostics(text)
  if (exit !== 0 && diagnostics.length === 0) throw new Error(`the checker could not run: ${text.trim() || `exit code ${exit}`}`)
  return { ok: exit === 0, diagnostics, text, ms: performance.now() - began }
}

function run(
  program: string,
  args: string[],
  options: { cwd: string; signal: AbortSignal | undefined },
): Promise<{ exit: number | null; text: string }> {
  const { cwd, signal } = options
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'], ...(signal ? { signal } : {}) })
    let text = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
    }
    child.once('error', reject)
    child.once('close', (exit) => resolve({ exit, text }))
  })
}
