import { type TextForm, textForm } from '@passover/core/changes'

const BOM = '\ufeff'

function withEnds(text: string, ends: '\n' | '\r\n'): string {
  const plain = text.replaceAll('\r\n', '\n')
  return ends === '\n' ? plain : plain.replaceAll('\n', '\r\n')
}

/** Returns true if the bytes are not text, so that no diff can be shown. */
export function isBinary(bytes: Buffer): boolean {
  return textForm(bytes) === undefined
}

/** Decodes bytes to text without the byte order mark, for people. Returns `undefined` for binary content. */
export function textOf(bytes: Buffer): string | undefined {
  return textForm(bytes)?.text
}

/** Returns true if two contents are equal: the same bytes, or the same text except for the byte order mark and consistent line ends. */
export function sameContent(file: Buffer, content: Buffer): boolean {
  if (file.equals(content)) return true
  const [own, other] = [textForm(file), textForm(content)]
  return own !== undefined && other !== undefined && sameText(own, other)
}

function sameText(own: TextForm, other: TextForm): boolean {
  if (own.text === other.text) return true
  // A text without line ends has none to normalize. In a text with mixed line ends any difference may matter.
  if (own.ends === 'mixed' || own.ends === undefined) return false
  return own.text === withEnds(other.text, own.ends)
}

/**
 * Converts new content to the encoding, byte order mark and line ends of the file that it replaces. If only the form changes, the change is intended
 * and the content is used unchanged, as it is for binary content. With mixed line ends, the line ends are not converted.
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
