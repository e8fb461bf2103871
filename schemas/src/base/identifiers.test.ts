import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  agentName,
  idPrefix,
  idTime,
  keyText,
  makeId,
  makeInstance,
  newAgentName,
  parseKey,
  passId,
  passKey,
  type Random,
  storedId,
} from './identifiers.js'

/** Randomness that repeats itself: bytes of a linear congruence. */
function seeded(seed: number): Random {
  let state = seed >>> 0
  return {
    bytes: (length) =>
      Uint8Array.from({ length }, () => {
        state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
        return state >>> 24
      }),
  }
}

/** 9 digits of base 36 last until the year 5188; ids of 36⁸ ms and more fill all of them. */
const LAST = 36 ** 9 - 1
const times = fc.integer({ min: 0, max: LAST })

describe('generated ids', () => {
  it('have 32 characters, tell their time and instance, and are pass ids', () => {
    fc.assert(
      fc.property(fc.nat(), times, (seed, now) => {
        const random = seeded(seed)
        const instance = makeInstance(random)
        const id = makeId(instance, now, random)
        expect(id).toHaveLength(32)
        expect(id[17]).toBe('_')
        expect(idTime(id)).toBe(now)
        expect(id.startsWith(idPrefix(instance))).toBe(true)
        expect(idPrefix(instance)).toHaveLength(8)
        expect(passId.safeParse(id).success).toBe(true)
      }),
    )
  })

  it('sort by time within an instance, and fractions of a millisecond are cut', () => {
    expect(makeId('abcdefg', 1_000, seeded(1)) < makeId('abcdefg', 2_000, seeded(1))).toBe(true)
    expect(idTime(makeId('abcdefg', 1_764_327_600_000.9, seeded(1)))).toBe(1_764_327_600_000)
  })

  it('differ for other randomness', () => {
    const ids = new Set(Array.from({ length: 1_000 }, (_, seed) => makeId('abcdefg', 1, seeded(seed))))
    expect(ids.size).toBe(1_000)
  })
})

describe('ids given by others', () => {
  it('a UUID tells its time if it is version 7, and is never taken for a generated one', () => {
    expect(idTime('01890a5d-ac96-774b-bcce-b302099a8057')).toBe(0x01890a5dac96)
    expect(idTime('01890A5D-AC96-774B-BCCE-B302099A8057')).toBe(0x01890a5dac96)
    fc.assert(
      fc.property(fc.uuid({ version: [1, 2, 3, 4, 5] }), (id) => {
        expect(passId.safeParse(id).success).toBe(true)
        expect(idTime(id)).toBeUndefined()
      }),
    )
    fc.assert(fc.property(fc.uuid({ version: 7 }), (id) => idTime(id) === Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)))
  })

  it('hex of any length has no time', () => {
    const hex = fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 9, maxLength: 64 })
    fc.assert(
      fc.property(hex, (id) => {
        expect(passId.safeParse(id).success).toBe(true)
        expect(idTime(id)).toBeUndefined()
      }),
    )
  })

  it('32 letters and digits, as long as a generated id, have no time', () => {
    const unit = fc.constantFrom(...'0123456789abcdefghijklmnopqrstuvwxyz')
    fc.assert(fc.property(fc.string({ unit, minLength: 32, maxLength: 32 }), (id) => idTime(id) === undefined))
    expect(idTime('0'.repeat(32))).toBeUndefined()
    expect(idTime(`${'0'.repeat(17)}-${'0'.repeat(14)}`)).toBeUndefined()
  })

  const HOSTILE = [
    '',
    ' ',
    '        ',
    '12345678',
    'x'.repeat(65),
    'x'.repeat(10_000_000),
    'a.b.c.d.e.f',
    '*********',
    'abc>defghi',
    'abcdefgh*',
    'abcdefghi\n',
    '\nabcdefghi',
    'abcdefgh\u00e9',
    'абвгдежзий',
    'abcdefgh\u200b',
    'abcd efgh ij',
    'abcdefgh/..',
    'abcdefgh\0',
    'abcdefgh%2e',
    '\ud800abcdefgh',
    'bad-12345',
    'bad-xxxxxxxxxxxxxxxx',
  ]
  it.each(HOSTILE.map((id) => [JSON.stringify(id.slice(0, 20)), id]))('%s is refused', (_, id) => {
    expect(passId.safeParse(id).success).toBe(false)
  })

  it.each([undefined, null, 123456789, {}, []])('%j is no id', (id) => {
    expect(passId.safeParse(id).success).toBe(false)
  })

  it('nobody is the name of no new agent, and still read', () => {
    expect(newAgentName.safeParse('nobody').error?.issues[0]?.message).toBe('"nobody" is reserved')
    expect([newAgentName.safeParse('somebody').success, agentName.safeParse('nobody').success]).toEqual([true, true])
    expect(newAgentName.safeParse('passover').success).toBe(false)
  })

  it('says why', () => {
    expect(passId.safeParse('bad-12345').error?.issues[0]?.message).toMatch(/reserved/)
    expect(passId.safeParse('short').error?.issues[0]?.message).toMatch(/9 to 64/)
    expect(passId.safeParse(7).error?.issues[0]?.message).toMatch(/string/)
  })

  it('what is accepted is one token of a subject', () => {
    fc.assert(fc.property(fc.string(), (id) => !passId.safeParse(id).success || /^[\w-]{9,64}$/.test(id)))
    expect(passId.safeParse('badminton').success).toBe(true)
  })

  it('a stored id may also be one of a malformed request', () => {
    expect(storedId.safeParse('bad-00000017').success).toBe(true)
    for (const id of ['', 'bad-17', 'abcdef.ghi', 'x'.repeat(65), 'abcdefghi\n']) expect(storedId.safeParse(id).success).toBe(false)
  })
})

describe('agent names', () => {
  it.each(['alice', 'A', '7', 'code-review_2', 'passover2', 'Passover', 'x'.repeat(64)])('%s is one', (name) => {
    expect(agentName.safeParse(name).success).toBe(true)
  })

  it.each(['', ' ', 'passover', '-alice', '_alice', 'a.b', 'a*', '>', 'a b', 'alice\n', 'élan', 'x'.repeat(65), 'x'.repeat(10_000_000)])(
    '%j is none',
    (name) => {
      expect(agentName.safeParse(name).success).toBe(false)
    },
  )

  it('says why', () => {
    expect(agentName.safeParse('passover').error?.issues[0]?.message).toBe('"passover" is reserved')
    expect(agentName.safeParse('a.b').error?.issues[0]?.message).toMatch(/1 to 64/)
  })
})

describe('pass keys', () => {
  const key = { originator: 'alice', subagent: 'audit', id: 'abcdefghi' }

  it('are written and read', () => {
    expect(keyText(key)).toBe('alice/audit/abcdefghi')
    expect(parseKey(keyText(key))).toEqual(key)
    expect(passKey.parse(key)).toEqual(key)
  })

  it.each(['', 'alice', 'alice/audit', 'alice//id', '/audit/id', 'alice/audit/', 'a/b/c/d'])('%j is none', (text) => {
    expect(parseKey(text)).toBeUndefined()
  })
})
