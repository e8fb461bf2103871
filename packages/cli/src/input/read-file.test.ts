import { describe, expect, it } from 'vitest'
import { decodeText } from './read-file.js'

describe('textOf', () => {
  it.each<[string, Buffer, object]>([
    ['UTF-8', Buffer.from('\u00e9\ufffd'), { kind: 'text', text: '\u00e9\ufffd' }],
    ['a byte order mark', Buffer.from('\ufeffa'), { kind: 'text', text: 'a' }],
    ['nothing', Buffer.alloc(0), { kind: 'text', text: '' }],
    ['UTF-16 with a mark', Buffer.from('\ufeff{}', 'utf16le'), { why: 'it is encoded as UTF-16, not as UTF-8' }],
    ['UTF-16, big-endian', Buffer.from('\ufeff{}', 'utf16le').swap16(), { why: 'it is encoded as UTF-16, not as UTF-8' }],
    ['UTF-16 without a mark', Buffer.from('{"a":1}}', 'utf16le'), { why: 'it is encoded as UTF-16, not as UTF-8' }],
    ['UTF-32', Buffer.from([0xff, 0xfe, 0, 0]), { why: 'it is encoded as UTF-32, not as UTF-8' }],
    ['Latin-1', Buffer.from('a: \xe9b', 'latin1'), { kind: 'no text' }],
    [
      'a broken line',
      Buffer.concat([Buffer.from('\ufffd\n\u00e9'), Buffer.from([0xe9, 0x62])]),
      { why: 'it is not UTF-8: line 2 has the byte 0xe9' },
    ],
    ['a broken end', Buffer.from('\u20ac').subarray(0, 2), { why: expect.stringContaining('it is not UTF-8') }],
  ])('reads or names %s', (_, bytes, read) => {
    expect(decodeText(bytes)).toMatchObject(read)
  })
})
