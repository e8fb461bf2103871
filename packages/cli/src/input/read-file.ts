import { closeSync, fstatSync, openSync, readFileSync, readSync, type Stats } from 'node:fs'
import { resolve } from 'node:path'
import { CliFailure } from '../errors.js'
import { fileErrorReason } from '../file-error.js'

const CHUNK = 64 * 1024

export type ReadFile = { kind: 'bytes'; bytes: Buffer; stat: Stats } | { kind: 'not a file' } | { kind: 'too large'; bytes: number }

/**
 * Reads a file or a pipe, such as `<(command)` of a shell, up to a limit. Also checks the size while reading, because the file may grow.
 *
 * @throws the system error (see {@link fileErrorReason}).
 */
export function readFileUpTo(path: string, most: number): ReadFile {
  const file = openSync(path, 'r')
  try {
    const stat = fstatSync(file)
    if (!stat.isFile() && !stat.isFIFO()) return { kind: 'not a file' }
    if (stat.size > most) return { kind: 'too large', bytes: stat.size }
    const chunks: Buffer[] = []
    let size = 0
    for (;;) {
      const chunk = Buffer.allocUnsafe(Math.max(CHUNK, stat.size - size))
      const read = readSync(file, chunk)
      if (read === 0) return { kind: 'bytes', bytes: Buffer.concat(chunks, size), stat }
      size += read
      if (size > most) return { kind: 'too large', bytes: size }
      chunks.push(chunk.subarray(0, read))
    }
  } finally {
    closeSync(file)
  }
}

export type DecodedText = { kind: 'text'; text: string } | { kind: 'no text'; why: string }

/** Decodes UTF-8 text without its byte order mark, or says why the bytes are not such text. */
export function decodeText(bytes: Uint8Array): DecodedText {
  const wide = wideEncoding(bytes)
  if (wide) return { kind: 'no text', why: `it is encoded as ${wide}, not as UTF-8` }
  try {
    return { kind: 'text', text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) }
  } catch {
    return { kind: 'no text', why: `it is not UTF-8: ${whereBroken(bytes)}` }
  }
}

/** Detects UTF-16 and UTF-32 by the byte order mark, or UTF-16 by a zero in every second byte of plain text. */
function wideEncoding(bytes: Uint8Array): string | undefined {
  const [a, b, c, d] = bytes
  if (a === 0xff && b === 0xfe) return c === 0 && d === 0 ? 'UTF-32' : 'UTF-16'
  if (a === 0xfe && b === 0xff) return 'UTF-16'
  if (a === 0 && b === 0 && c === 0xfe && d === 0xff) return 'UTF-32'
  if (bytes.length < 4 || bytes.length % 2 !== 0) return undefined
  return (a !== 0 && b === 0 && c !== 0 && d === 0) || (a === 0 && b !== 0 && c === 0 && d !== 0) ? 'UTF-16' : undefined
}

/** Describes where the bytes stop being UTF-8, by line. */
function whereBroken(bytes: Uint8Array): string {
  const lenient = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
  for (let index = lenient.indexOf('\ufffd'); index !== -1; index = lenient.indexOf('\ufffd', index + 1)) {
    // The text before the first invalid byte is intact, so its byte length gives the position.
    const before = lenient.slice(0, index)
    const at = Buffer.byteLength(before)
    const isOwn = bytes[at] === 0xef && bytes[at + 1] === 0xbf && bytes[at + 2] === 0xbd
    if (!isOwn) return `line ${before.split('\n').length} has the byte 0x${(bytes[at] ?? 0).toString(16).padStart(2, '0')}`
  }
  return 'it ends in the middle of a character'
}

/** Reads a JSON file that a flag names. Throws E030 if it cannot be read or is not JSON. */
export function readJsonFile(directory: string, path: string): unknown {
  try {
    const read = decodeText(readFileSync(resolve(directory, path)))
    if (read.kind === 'no text') throw new Error(read.why)
    return JSON.parse(read.text)
  } catch (error) {
    throw new CliFailure('E030', `${path}: ${fileErrorReason(error) ?? (error instanceof Error ? error.message : String(error))}`)
  }
}
