import { describe, expect, it } from 'vitest'
import { readEnvironment } from './environment.js'
import { seesAll } from './open-queries.js'
import { auditOptions } from './options.js'

describe('seesAll', () => {
  const agents = new Set(['scout'])
  it.each([
    ['passover', {}, true],
    ['scout', {}, false],
    ['maria', {}, false],
    ['unknown', { people: ['maria'] }, false],
    ['maria', { people: ['maria'] }, true],
    ['unknown', { open: true }, true],
    ['scout', { open: true }, false],
  ] as const)('%s, %j: %j', (asker, settings, expected) => {
    const { people, open } = auditOptions.parse({ ...settings, people: [...('people' in settings ? settings.people : [])] })
    expect(seesAll(asker, { people, open }, agents)).toBe(expected)
  })

  it('is told by the environment', () => {
    const { settings } = readEnvironment({ PASSOVER_PEOPLE: 'maria, peter', PASSOVER_OPEN: 'true' }, () => undefined)
    expect(auditOptions.parse(settings)).toMatchObject({ people: ['maria', 'peter'], open: true })
  })
})
