import { isAbsolute, relative, resolve, sep } from 'node:path'
import { type ContextFile, LIMITS } from '@passover/schemas'
import { CliFailure, usage } from '../errors.js'
import { fileErrorReason } from '../file-error.js'
import { type ReadFile, readFileUpTo } from '../input/read-file.js'
import { cut } from '../terminal/text.js'

/**
 * Reads the files of `--file`. Paths inside the directory become relative to it. Binary files are encoded as base64 (`encoding`). Throws CliFailure
 * E042 for a file that is unreadable or given twice, and E012 for one that is too large for a context.
 */
export function readContextFiles(paths: string[], directory: string): ContextFile[] {
  const seen = new Set<string>()
  return paths.map((given) => {
    const path = resolve(directory, given)
    if (seen.has(path)) throw usage(`--file ${given}: the file is given twice`, 'name each file once')
    seen.add(path)
    return readContextFile(given, directory)
  })
}

function readContextFile(given: string, directory: string): ContextFile {
  const path = resolve(directory, given)
  const read = bytesOf(given, path)
  if (read.kind === 'not a file') throw usage(`--file ${given}: not a file`, 'name each file; your shell expands patterns such as src/*.ts')
  if (read.kind === 'too large') throw tooLarge(given, read.bytes)
  const { bytes, stat } = read
  const text = decodeText(bytes)
  const base64 = text === undefined ? bytes.toString('base64') : ''
  if (base64.length > LIMITS.content) throw tooLarge(given, bytes.length)
  const metadata = { size_bytes: bytes.length, last_modified: Math.floor(stat.mtimeMs), is_binary: text === undefined }
  return text === undefined
    ? { path: shown(path, directory), content: base64, encoding: 'base64', metadata }
    : { path: shown(path, directory), content: text, metadata }
}

function bytesOf(given: string, path: string): ReadFile {
  try {
    return readFileUpTo(path, LIMITS.content)
  } catch (error) {
    const why = fileErrorReason(error)
    if (why === undefined) throw error
    throw usage(`--file ${cut(given, NAME_SHOWN)}: ${why}`)
  }
}

const NAME_SHOWN = 200

const MIB = 1024 ** 2

function tooLarge(given: string, bytes: number): CliFailure {
  const most = LIMITS.content / MIB
  return new CliFailure('E012', `--file ${given}: it has ${Math.ceil(bytes / MIB)} MiB, which is more than a file in a context may have`, {
    hint: `the limits are: text up to ${most} MiB, binary up to ${(most * 3) / 4} MiB`,
  })
}

function shown(path: string, directory: string): string {
  const inside = relative(directory, path)
  if (inside.startsWith('..') || isAbsolute(inside)) return path
  return sep === '/' ? inside : inside.replaceAll(sep, '/')
}

/** Decodes UTF-8; `undefined` for other bytes and for text with NUL. */
function decodeText(bytes: Uint8Array): string | undefined {
  if (bytes.includes(0)) return undefined
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}
