import { type TextForm, textForm } from '@passover/core/changes'

const BOM = '\ufeff'

function withEnds(text: string, ends: '\n' | '\r\n'): string {
  const plain = text.replaceAll('\r\n', '\n')
  return ends === '\n' ? plain : plain.replaceAll('\n', '\r\n')
}

/** Whether bytes are no text that a person could look at as a diff. */
export function isBinary(bytes: Buffer): boolean {
  return textForm(bytes) === undefined
}

/** Bytes as text without their mark, for people; undefined when they are none. */
export function textOf(bytes: Buffer): string | undefined {
  return textForm(bytes)?.text
}

/** Whether a file says what a content says: the same bytes, or the same text but for its byte order mark and (one kind of) line ends. */
export function sameContent(file: Buffer, content: Buffer): boolean {
  if (file.equals(content)) return true
  const [own, other] = [textForm(file), textForm(content)]
  return own !== undefined && other !== undefined && sameText(own, other)
}

function sameText(own: TextForm, other: TextForm): boolean {
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
  const [own, before, after] = [textForm(file), textForm(old), textForm(content)]
  if (!own || !before || !after) return content
  if (file.equals(old) && withEnds(before.text, '\n') === withEnds(after.text, '\n')) return content
  const text = own.ends === 'mixed' || own.ends === undefined ? after.text : withEnds(after.text, own.ends)
  return encode(own.bom ? BOM + text : text, own.encoding)
}

function encode(text: string, encoding: TextForm['encoding']): Buffer {
  if (encoding === 'utf8') return Buffer.from(text, 'utf8')
  const bytes = Buffer.from(text, 'utf16le')
  return encoding === 'utf16le' ? bytes : bytes.swap16()
}
