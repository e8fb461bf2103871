import { expect, it } from 'vitest'
import { hasReferences, withPartPlaceholders } from './part-placeholders.js'

it('of a text that travels apart stands its beginning, and an empty artifact for each that does', () => {
  const output = { artifacts: [{ part: 'artifact:0', kind: 'file_modification' }], output: { part: 'output', begins: 'it be' } }
  expect(withPartPlaceholders(output)).toMatchObject({ artifacts: [{ type: 'file_modification' }], output: 'it be' })
  expect(withPartPlaceholders({ output: { part: 'output', begins: 3 } })).toEqual({ output: '' })
  expect(hasReferences({ artifacts: [], output: { part: 'output' } })).toBe(true)
})

it('what is whole stays as it is', () => {
  const output = { artifacts: [{ type: 'finding', part: 'x' }], output: 'text' }
  expect(withPartPlaceholders(output)).toBe(output)
  expect(hasReferences(output)).toBe(false)
})
