import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { inFormOf, isBinary, sameContent } from './file-encoding.js'

const bytes = (text: string) => Buffer.from(text)
const wide = (text: string) => Buffer.from(`\ufeff${text}`, 'utf16le')
const inForm = (file: string | Buffer, old: string, content: string) => {
  const own = typeof file === 'string' ? bytes(file) : file
  return sameContent(own, bytes(old)) ? inFormOf(own, bytes(old), bytes(content)) : 'another'
}

describe('a file that is as its subagent saw it', () => {
  it.each([
    ['CRLF', 'a\r\nb\r\n', 'a\nb\n', 'a\nB\n', 'a\r\nB\r\n'],
    ['LF, seen as CRLF', 'a\nb\n', 'a\r\nb\r\n', 'a\r\nB\r\n', 'a\nB\n'],
    ['a byte order mark', '\ufeffa\n', 'a\n', 'A\n', '\ufeffA\n'],
    ['a byte order mark and CRLF', '\ufeffa\r\nb', 'a\nb', 'A\nb', '\ufeffA\r\nb'],
    ['a mark that was only seen', 'a\n', '\ufeffa\n', '\ufeffA\n', 'A\n'],
    ['no end at its end', 'a\nb', 'a\nb', 'a\nc', 'a\nc'],
    ['no line end at all', 'a', 'a', 'a\r\nb', 'a\r\nb'],
    ['CRLF, of which the change forgot some', 'a\r\nb\r\n', 'a\r\nb\r\n', 'a\r\nB\nc\r\n', 'a\r\nB\r\nc\r\n'],
    ['CRLF, which is what is to be changed', 'a\r\nb\r\n', 'a\r\nb\r\n', 'a\nb\n', 'a\nb\n'],
    ['a mark, which is what is to be removed', '\ufeffa\n', '\ufeffa\n', 'a\n', 'a\n'],
    ['mixed ends, exactly', 'a\r\nb\n', 'a\r\nb\n', 'a\r\nB\n', 'a\r\nB\n'],
    ['lone carriage returns', 'a\rb\n', 'a\rb\n', 'a\rB\n', 'a\rB\n'],
  ])('keeps %s', (_, file, old, content, written) => {
    expect(String(inForm(file, old, content))).toBe(written)
  })

  it('keeps UTF-16', () => {
    expect(inForm(wide('a\r\nü'), 'a\nü', 'A\nü')).toEqual(wide('A\r\nü'))
    const big = Buffer.from(wide('a')).swap16()
    expect(inForm(big, 'a', 'b')).toEqual(Buffer.from(wide('b')).swap16())
  })

  it.each([
    ['mixed ends', 'a\r\nb\n', 'a\nb\n'],
    ['a space', 'a \n', 'a\n'],
    ['the last line end', 'a\n', 'a'],
    ['what is no UTF-8', Buffer.from([0x61, 0xff]), 'a\ufffd'],
    ['a mark in the middle', 'a\n\ufeffb', 'a\nb'],
    ['a carriage return that ends no line', 'a\rb\n', 'a\nb\n'],
  ])('is another one by %s', (_, file, old) => {
    expect(inForm(file, old, 'new')).toBe('another')
  })
})

describe('isBinary', () => {
  it.each([
    [[0], true],
    [[0x61, 0, 0x62], true],
    [[0xff, 0xfe], false],
    [[0xff, 0xfe, 0x61], true],
    [[0xc3, 0x28], true],
    [[0x89, 0x50, 0x4e, 0x47], true],
    [[], false],
    [[0xc3, 0xbc], false],
  ])('%j: %s', (given, expected) => {
    expect(isBinary(Buffer.from(given))).toBe(expected)
  })
})

describe('whatever the texts', () => {
  const line = fc.string({ maxLength: 5, unit: fc.constantFrom('a', 'b', ' ', 'é', '😀', '\t') })
  const text = fc.array(line, { maxLength: 5 })
  const form = fc.record({ bom: fc.boolean(), ends: fc.constantFrom('\n', '\r\n') })
  const written = (lines: string[], { bom, ends }: { bom: boolean; ends: string }) => bytes((bom ? '\ufeff' : '') + lines.join(ends))

  it('a file in one form is recognised in any other, and the new content is written in its own', () => {
    fc.assert(
      fc.property(text, text, form, form, form, (old, content, own, seen, said) => {
        fc.pre(old.length > 1 && old.join('\n') !== content.join('\n'))
        const file = written(old, own)
        const shown = written(old, seen)
        expect(sameContent(file, shown)).toBe(true)
        expect(inFormOf(file, shown, written(content, said))).toEqual(written(content, own))
      }),
    )
  })

  it('another text is never taken for it', () => {
    fc.assert(
      fc.property(text, text, form, form, (one, other, a, b) => {
        fc.pre(one.join('\n') !== other.join('\n'))
        expect(sameContent(written(one, a), written(other, b))).toBe(false)
      }),
    )
  })
})
