import { describe, expect, it } from 'vitest'
import { personFromUser, resolvePerson, resolveServer } from './settings.js'

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

describe('resolveServer', () => {
  const at = (env: NodeJS.ProcessEnv, server?: string) => resolveServer(server === undefined ? {} : { server }, env, '/nowhere')

  it('takes several addresses, and signs in as the address says, else the environment', () => {
    const env = { NATS_URL: 'nats://ann:s%20cret@a:1, b:2', NATS_USER: 'other', NATS_PASSWORD: 'word' }
    expect(at(env)).toMatchObject({ url: 'nats://a:1,nats://b:2', credentials: { user: 'ann', pass: 's cret' }, from: 'NATS_URL' })
    expect(at({ PASSOVER_CREDENTIALS: 'ann:word', PASSOVER_CA: '/ca' }, 'c:3')).toMatchObject({
      url: 'nats://c:3',
      credentials: { user: 'ann', pass: 'word' },
      tls: { ca: '/ca' },
    })
    expect(at({ PASSOVER_SERVER: '[::1]:4222', NATS_TOKEN: 't' })).toMatchObject({ url: 'nats://[::1]:4222', credentials: { token: 't' } })
  })

  it('refuses what is no address with E042, without a secret', () => {
    const refused = expect.objectContaining({ code: 'E042', message: expect.not.stringContaining('s3cret') })
    for (const text of ['nats://', 'http://u:s3cret@host:1', 'nats://u:s3cret%@h', 'nats://u:s3cret/@h'])
      expect(() => at({}, text)).toThrow(refused)
  })
})
