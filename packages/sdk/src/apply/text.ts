import type { FileModificationArtifact } from '@passover/schemas'

/** How a file writes its text: what an agent that saw only the text cannot know, and what stays as it is. */
interface Form {
  encoding: 'utf8' | 'utf16le' | 'utf16be'
  bom: boolean
  /** undefined: no line ends at all; `mixed`: nothing can be put back, so contents must agree exactly. */
  ends: '\n' | '\r\n' | 'mixed' | undefined
  /** Without the byte order mark. */
  text: string
}

const BOM = '\ufeff'
const NUL = '\0'

/** Bytes as text; undefined when they are none: not UTF-8 or UTF-16 with its mark, or with a NUL in them. */
function formOf(bytes: Buffer): Form | undefined {
  const wide = wideForm(bytes)
  const decoded = wide ?? decode('utf-8', bytes)
  if (decoded === undefined) return undefined
  const { encoding, whole } = typeof decoded === 'string' ? { encoding: 'utf8' as const, whole: decoded } : decoded
  if (whole.includes(NUL)) return undefined
  const bom = whole.startsWith(BOM)
  const text = bom ? whole.slice(1) : whole
  return { encoding, bom, ends: endsOf(text), text }
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

function endsOf(text: string): Form['ends'] {
  const all = text.split('\n').length - 1
  if (all === 0) return undefined
  const pairs = text.split('\r\n').length - 1
  if (pairs === 0) return '\n'
  return pairs === all ? '\r\n' : 'mixed'
}

function withEnds(text: string, ends: '\n' | '\r\n'): string {
  const plain = text.replaceAll('\r\n', '\n')
  return ends === '\n' ? plain : plain.replaceAll('\n', '\r\n')
}

/** A modification's content as bytes. */
export function bytesOf(content: string, { encoding }: Pick<FileModificationArtifact, 'encoding'>): Buffer {
  return Buffer.from(content, encoding === 'base64' ? 'base64' : 'utf8')
}

/** Whether bytes are no text that a person could look at as a diff. */
export function isBinary(bytes: Buffer): boolean {
  return formOf(bytes) === undefined
}

/** Bytes as text without their mark, for people; undefined when they are none. */
export function textOf(bytes: Buffer): string | undefined {
  return formOf(bytes)?.text
}

/** Whether a file says what a content says: the same bytes, or the same text but for its byte order mark and (one kind of) line ends. */
export function sameContent(file: Buffer, content: Buffer): boolean {
  if (file.equals(content)) return true
  const [own, other] = [formOf(file), formOf(content)]
  return own !== undefined && other !== undefined && sameText(own, other)
}

function sameText(own: Form, other: Form): boolean {
  if (own.text === other.text) return true
  // What ends no line has no line ends to differ in; in mixed ones any difference may matter.
  if (own.ends === 'mixed' || own.ends === undefined) return false
  return own.text === withEnds(other.text, own.ends)
}

/**
 * New content in the form of the file that it replaces: its encoding, byte order mark and line ends. A change of nothing else is meant
 * so and is written as it stands; so is what is no text, or where line ends are mixed.
 */
export function inFormOf(file: Buffer, old: Buffer, content: Buffer): Buffer {
  const [own, before, after] = [formOf(file), formOf(old), formOf(content)]
  if (!own || !before || !after) return content
  if (file.equals(old) && withEnds(before.text, '\n') === withEnds(after.text, '\n')) return content
  const text = own.ends === 'mixed' || own.ends === undefined ? after.text : withEnds(after.text, own.ends)
  return encode(own.bom ? BOM + text : text, own.encoding)
}

function encode(text: string, encoding: Form['encoding']): Buffer {
  if (encoding === 'utf8') return Buffer.from(text, 'utf8')
  const bytes = Buffer.from(text, 'utf16le')
  return encoding === 'utf16le' ? bytes : bytes.swap16()
}
