import { type ArchiveSource, encodeIndex } from '@passover/archive'
import type { PassKey } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { PassIdResolver } from './resolve-ids.js'

const key = (id: string, originator = 'alice'): PassKey => ({ originator, subagent: 'audit', id })

function archiveOf(...keys: PassKey[]): ArchiveSource {
  const index = encodeIndex(
    0,
    keys.map((each, at) => ({ key: each, session_id: undefined, sequences: [at], begins: true })),
  )
  const damaged = Buffer.from('no index')
  return {
    entries: async () => [{ index: 'good' }, { index: 'damaged' }, { index: 'gone' }] as never,
    object: async (name) => ({ good: index, damaged })[name],
  }
}

const of = (source: ArchiveSource, ...ids: string[]) => PassIdResolver.open(source, { ids })

describe('the passes of an archive that ids name', () => {
  it('are the one of that id, else the only one that begins so', async () => {
    const source = archiveOf(key('pass-000000001'), key('pass-000000001-child'), key('other-0000001'))
    const whole = await of(source, 'pass-000000001')
    expect([whole.size, whole.has(key('pass-000000001')), whole.has(key('pass-000000001-child'))]).toEqual([1, true, false])
    const begun = await of(source, 'oth', 'other-0000001')
    expect([begun.size, begun.has(key('other-0000001')), begun.has(key('pass-000000001'))]).toEqual([1, true, false])
    expect((await of(source, 'oth', 'nothing')).size).toBe(2)
    expect((await of(source)).size).toBe(0)
  })

  it('are not several as one: of one beginning, or of one id between several agents, unless it is said whose', async () => {
    const source = archiveOf(key('pass-000000001'), key('pass-000000002'), key('pass-000000002', 'bob'))
    await expect(of(source, 'pass-')).rejects.toMatchObject({ code: 'E042', exit: 2 })
    await expect(of(source, 'pass-000000002')).rejects.toMatchObject({ code: 'E042' })
    const bobs = await PassIdResolver.open(source, { ids: ['pass-'], from: 'bob', to: 'audit' })
    expect([bobs.has(key('pass-000000002', 'bob')), bobs.has(key('pass-000000002'))]).toEqual([true, false])
    expect((await PassIdResolver.open(source, { ids: ['pass-'], to: 'nobody' })).has(key('pass-000000001'))).toBe(false)
  })

  it('are met where no index speaks of them, and a second one is refused then', async () => {
    const named = await of(archiveOf(), 'pass-')
    expect([named.has(key('pass-000000001')), named.has(key('pass-000000001')), named.has(key('other-0000001'))]).toEqual([
      true,
      true,
      false,
    ])
    expect(() => named.has(key('pass-000000002'))).toThrow(expect.objectContaining({ code: 'E042' }))
  })
})
