import { describe, expect, it } from 'vitest'
import { personFromUser, resolvePerson, splitUrl } from './settings.js'

describe('whose name a person acts under', () => {
  it('is the flag, else the environment', () => {
    expect(resolvePerson({ as: 'alice' }, { PASSOVER_AS: 'bob' })).toBe('alice')
    expect(resolvePerson({}, { PASSOVER_AS: 'bob' })).toBe('bob')
  })

  it('is never the system, nor what a subject cannot carry', () => {
    for (const as of ['passover', 'a.b', '', '-x', '*']) expect(() => resolvePerson({ as }, {})).toThrow(/cannot be a person/)
  })

  it('makes a name of a system user', () => {
    expect(personFromUser('ann.lee')).toBe('ann-lee')
    expect(personFromUser('DOMAIN\\ann')).toBe('DOMAIN-ann')
    expect(personFromUser('passover')).toBe('person')
    expect(personFromUser('...')).toBe('person')
  })
})

describe('a server address', () => {
  it('gives up its credentials', () => {
    expect(splitUrl('nats://ann:s%20cret@host:4222')).toEqual({ url: 'nats://host:4222', credentials: { user: 'ann', pass: 's cret' } })
    expect(splitUrl('nats://token@host:4222')).toEqual({ url: 'nats://host:4222', credentials: { token: 'token' } })
    expect(splitUrl('host:4222')).toEqual({ url: 'nats://host:4222' })
  })

  it('is refused when it is none', () => {
    for (const text of ['nats://', 'http://[', '']) expect(() => splitUrl(text)).toThrow()
    expect(() => splitUrl('http://u:secret@host:1', 'PASSOVER_SERVER')).toThrow(/^PASSOVER_SERVER: http:\/\/host:1 is no NATS/)
  })
})
