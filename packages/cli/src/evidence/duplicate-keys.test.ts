import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { countMembersInText, countMembersOfValue } from './duplicate-keys.js'

describe('members of objects', () => {
  it('are as many in a text as in what it says, however it is written', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(undefined, 1, '\t'), (value, indent) => {
        const text = JSON.stringify(value, null, indent)
        expect(countMembersInText(text)).toBe(countMembersOfValue(JSON.parse(text)))
      }),
    )
    expect(countMembersInText('"\\\\": "\\":", {"a:" : "b\\\\" , "c\\"d":1}')).toBe(3)
    expect(countMembersInText('"never ended')).toBe(0)
    expect(countMembersOfValue(JSON.parse(`${'['.repeat(50_000)}{"a":1}${']'.repeat(50_000)}`))).toBe(1)
  })

  it('are more in a text where a name stands twice', () => {
    for (const text of ['{"a":1,"a":1}', '[{"x":{"a":1,"\\u0061":2}}]', '{"__proto__":1,"__proto__":2}'])
      expect(countMembersInText(text), text).toBe(countMembersOfValue(JSON.parse(text)) + 1)
  })
})
