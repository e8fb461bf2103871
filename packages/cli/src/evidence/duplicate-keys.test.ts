import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { membersIn, membersOf } from './duplicate-keys.js'

describe('members of objects', () => {
  it('are as many in a text as in what it says, however it is written', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(undefined, 1, '\t'), (value, indent) => {
        const text = JSON.stringify(value, null, indent)
        expect(membersIn(text)).toBe(membersOf(JSON.parse(text)))
      }),
    )
    expect(membersIn('"\\\\": "\\":", {"a:" : "b\\\\" , "c\\"d":1}')).toBe(3)
    expect(membersIn('"never ended')).toBe(0)
    expect(membersOf(JSON.parse(`${'['.repeat(50_000)}{"a":1}${']'.repeat(50_000)}`))).toBe(1)
  })

  it('are more in a text where a name stands twice', () => {
    for (const text of ['{"a":1,"a":1}', '[{"x":{"a":1,"\\u0061":2}}]', '{"__proto__":1,"__proto__":2}'])
      expect(membersIn(text), text).toBe(membersOf(JSON.parse(text)) + 1)
  })
})
