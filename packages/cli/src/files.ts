import { readFileSync, statSync } from 'node:fs'
import { isAbsolute, relative, resolve, sep } from 'node:path'
import type { ContextFile } from '@passover/schemas'
import { usage } from './failure.js'
import { isNodeError } from './project.js'

/** Reads the files of `--file`. Paths are kept relative to the directory where they lie in it. A binary file travels by name only. */
export function readContextFiles(paths: string[], directory: string): ContextFile[] {
  return paths.map((path) => readContextFile(path, directory))
}

function readContextFile(given: string, directory: string): ContextFile {
  const path = resolve(directory, given)
  try {
    const stat = statSync(path)
    if (!stat.isFile()) throw usage(`--file ${given}: not a file`, 'name each file; a shell expands src/*.ts')
    const bytes = readFileSync(path)
    const text = decodeText(bytes)
    const metadata = { size_bytes: bytes.length, last_modified: Math.floor(stat.mtimeMs), is_binary: text === undefined }
    return { path: shown(path, directory), ...(text === undefined ? {} : { content: text }), metadata }
  } catch (error) {
    if (isNodeError(error) && (error.code === 'ENOENT' || error.code === 'EACCES')) {
      throw usage(`--file ${given}: ${error.code === 'ENOENT' ? 'there is no such file' : 'it may not be read'}`)
    }
    throw error
  }
}

function shown(path: string, directory: string): string {
  const inside = relative(directory, path)
  if (inside.startsWith('..') || isAbsolute(inside)) return path
  return sep === '/' ? inside : inside.replaceAll(sep, '/')
}

/** The text of UTF-8 bytes; undefined for anything else, and for what has NUL in it. */
function decodeText(bytes: Uint8Array): string | undefined {
  if (bytes.includes(0)) return undefined
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}
