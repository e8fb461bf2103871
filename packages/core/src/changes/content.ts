import type { FileModificationArtifact } from '@passover/schemas'

/** Text of a file, with its encoding and line ends. */
export interface TextForm {
  encoding: 'utf8' | 'utf16le' | 'utf16be'
  bom: boolean
  /** `mixed` means both LF and CRLF; `undefined` means no line end. */
  ends: '\n' | '\r\n' | 'mixed' | undefined
  /** Text without the byte order mark. */
  text: string
}

const BOM = '\ufeff'
const NUL = '\0'

/** Returns a modification's content as the bytes that are written. */
export function contentBytes(content: string, { encoding }: Pick<FileModificationArtifact, 'encoding'>): Buffer {
  return Buffer.from(content, encoding === 'base64' ? 'base64' : 'utf8')
}

/** Decodes bytes as text. Returns `undefined` for binary content: neither UTF-8 nor UTF-16 with its mark, or with a NUL. */
export function textForm(bytes: Buffer): TextForm | undefined {
  const wide = wideForm(bytes)
  const decoded = wide ?? decode('utf-8', bytes)
  if (decoded === undefined) return undefined
  const { encoding, whole } = typeof decoded === 'string' ? { encoding: 'utf8' as const, whole: decoded } : decoded
  if (whole.includes(NUL)) return undefined
  const bom = whole.startsWith(BOM)
  const text = bom ? whole.slice(1) : whole
  return { encoding, bom, ends: lineEnds(text), text }
}

function wideForm(bytes: Buffer): { encoding: 'utf16le' | 'utf16be'; whole: string } | undefined {
  if (bytes.length < 2 || bytes.length % 2 !== 0) return undefined
  const encoding = bytes[0] === 0xff && bytes[1] === 0xfe ? 'utf16le' : bytes[0] === 0xfe && bytes[1] === 0xff ? 'utf16be' : undefined
  if (!encoding) return undefined
  const whole = decode('utf-16le', encoding === 'utf16le' ? bytes : Buffer.from(bytes).swap16())
  return whole === undefined ? undefined : { encoding, whole }
}

function decode(label: string, bytes: Buffer): string | undefined {
  try {
    return new TextDecoder(label, { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** Counts without making a string of each line. */
export function countOf(text: string, part: string): number {
  let count = 0
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length)) count += 1
  return count
}

function lineEnds(text: string): TextForm['ends'] {
  const all = countOf(text, '\n')
  if (all === 0) return undefined
  const pairs = countOf(text, '\r\n')
  if (pairs === 0) return '\n'
  return pairs === all ? '\r\n' : 'mixed'
}

/** First bytes of common binary formats, as Latin-1. */
const MAGIC: readonly (readonly [magic: string, type: string, program?: true])[] = [
  ['\x7fELF', 'ELF program', true],
  ['MZ', 'Windows program', true],
  ['\xcf\xfa\xed\xfe', 'Mach-O program', true],
  ['\xca\xfe\xba\xbe', 'Mach-O or Java class', true],
  ['\0asm', 'WebAssembly module', true],
  ['\x89PNG\r\n', 'PNG image'],
  ['\xff\xd8\xff', 'JPEG image'],
  ['GIF8', 'GIF image'],
  ['%PDF-', 'PDF document'],
  ['PK\x03\x04', 'ZIP archive'],
  ['\x1f\x8b', 'gzip archive'],
  ['SQLite format 3', 'SQLite database'],
]

/** Names the format of binary content by its first bytes. `program`: an operating system or runtime can execute it. */
export function binaryType(bytes: Buffer): { type: string; program: boolean } {
  const head = bytes.subarray(0, 16).toString('latin1')
  const [, type, program] = MAGIC.find(([magic]) => head.startsWith(magic)) ?? ['', 'unknown binary']
  return { type, program: program === true }
}
