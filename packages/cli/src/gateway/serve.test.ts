import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { personWithoutToken } from './serve.js'

describe('reading without a token', () => {
  const folder = mkdtempSync(join(tmpdir(), 'passover-open-'))
  afterAll(() => rmSync(folder, { recursive: true }))

  it('is possible where all agents of the machine are trusted', () => {
    expect(personWithoutToken('maria', {}, {})).toBe('maria')
    expect(personWithoutToken('maria', { project: folder }, {})).toBe('maria')
  })

  it('is not possible where agents are isolated', () => {
    mkdirSync(join(folder, 'auth'))
    writeFileSync(join(folder, 'auth', 'keys.json'), '{}')
    expect(personWithoutToken('maria', { project: folder }, {})).toBeUndefined()
  })

  it('is not possible where owners have credentials of their own', () => {
    expect(personWithoutToken('maria', {}, { PASSOVER_GATEWAY_CREDENTIALS: 'owners.json' })).toBeUndefined()
  })
})
