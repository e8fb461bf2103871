import fc from 'fast-check'
import { expect, it } from 'vitest'
import { LastSegmentTable } from './last-segment-table.js'

it('is a map, whatever comes and goes', () => {
  const step = fc.record({ name: fc.nat(3_000), k: fc.option(fc.nat(1_000_000), { nil: undefined }) })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 6_000, size: 'max' }), (steps) => {
      const [made, model] = [new LastSegmentTable(), new Map<string, number>()]
      for (const { name, k } of steps) {
        const text = `alice.audit.given-id-${name}`
        if (k === undefined) {
          made.delete(text)
          model.delete(text)
        } else {
          made.set(text, k)
          model.set(text, k)
        }
        expect(made.size).toBe(model.size)
        expect(made.get(text)).toBe(model.get(text))
      }
      for (const [text, k] of model) expect(made.get(text)).toBe(k)
    }),
    { numRuns: 20 },
  )
})

it('keeps its size while many pass through, and has what stays', () => {
  const made = new LastSegmentTable()
  made.set('stays', 7)
  for (let number = 0; number < 100_000; number++) {
    made.set(`${number}`, number)
    if (number >= 100) made.delete(`${number - 100}`)
  }
  expect([made.size, made.get('stays'), made.get('99999'), made.get('99')]).toEqual([101, 7, 99_999, undefined])
})
