import { describe, expect, it } from 'vitest'
import { busFromEnvironment, nodeRandom, parseCredentials, readTextFile, serverClock, topologyFromEnvironment } from './config-from-env.js'

const none = () => undefined

describe('busFromEnvironment', () => {
  it('connects to this machine when nothing is said', () => {
    expect(busFromEnvironment({}, none)).toEqual({ servers: ['nats://127.0.0.1:4222'] })
    expect(busFromEnvironment({ NATS_URL: '', PASSOVER_PREFIX: '', PASSOVER_STREAM: '' }, none)).toEqual({
      servers: ['nats://127.0.0.1:4222'],
    })
  })

  it('reads servers, prefix and stream', () => {
    const env = { NATS_URL: 'nats://a:1, nats://b:2,', PASSOVER_PREFIX: 'p', PASSOVER_STREAM: 'S' }
    expect(busFromEnvironment(env, none)).toEqual({ servers: ['nats://a:1', 'nats://b:2'], prefix: 'p', stream: 'S' })
  })

  it('takes credentials from the text, or from the file that it names', () => {
    expect(busFromEnvironment({ PASSOVER_CREDENTIALS: 'u:p' }, none).credentials).toEqual({ user: 'u', pass: 'p' })
    const readFile = (path: string) => (path === '/a' ? 'token\n' : undefined)
    expect(busFromEnvironment({ PASSOVER_CREDENTIALS: '/a' }, readFile).credentials).toEqual({ token: 'token' })
    expect(() => busFromEnvironment({ PASSOVER_CREDENTIALS: '/b.creds' }, readFile)).toThrow(
      'PASSOVER_CREDENTIALS: /b.creds cannot be read',
    )
    expect(() => busFromEnvironment({ NATS_CREDS: '/b' }, readFile)).toThrow('NATS_CREDS: /b cannot be read')
  })

  it('signs in as the address says, else by the first variable that is set', () => {
    const env = {
      NATS_TOKEN: 't',
      NATS_USER: 'u',
      NATS_PASSWORD: 'p',
      NATS_CREDS: '/c',
      PASSOVER_CREDENTIALS: 'a:b',
      NATS_URL: 'nats://x:y@h',
    }
    const signIn = (left_out: string[]) => {
      const rest = Object.fromEntries(Object.entries(env).filter(([name]) => !left_out.includes(name)))
      return busFromEnvironment(rest, (path) => (path === '/c' ? 'c' : undefined)).credentials
    }
    expect(signIn([])).toEqual({ user: 'x', pass: 'y' })
    expect(signIn(['NATS_URL'])).toEqual({ user: 'a', pass: 'b' })
    expect(signIn(['NATS_URL', 'PASSOVER_CREDENTIALS'])).toEqual({ credsFile: '/c' })
    expect(signIn(['NATS_URL', 'PASSOVER_CREDENTIALS', 'NATS_CREDS'])).toEqual({ user: 'u', pass: 'p' })
    expect(signIn(['NATS_URL', 'PASSOVER_CREDENTIALS', 'NATS_CREDS', 'NATS_USER'])).toEqual({ token: 't' })
    expect(busFromEnvironment({ PASSOVER_SERVER: 'a:1', NATS_URL: 'b:2' }, none).servers).toEqual(['nats://a:1'])
  })
})

describe('parseCredentials', () => {
  it.each([
    [' u:p:q\n', { user: 'u', pass: 'p:q' }],
    [`SU${'A'.repeat(56)}`, { nkey: `SU${'A'.repeat(56)}` }],
    ['x -----BEGIN NATS USER JWT----- y', { creds: 'x -----BEGIN NATS USER JWT----- y' }],
    [':p', { token: ':p' }],
    ['word', { token: 'word' }],
  ])('%s', (text, credentials) => {
    expect(parseCredentials(text)).toEqual(credentials)
  })
})

describe('nodeRandom', () => {
  it('gives as many bytes as asked for, across its lots, and none twice', () => {
    const given = Array.from({ length: 1_000 }, () => Buffer.from(nodeRandom.bytes(16)).toString('hex'))
    expect(new Set(given).size).toBe(1_000)
    expect(nodeRandom.bytes(10_000)).toHaveLength(10_000)
  })

  it('gives bytes of their own', () => {
    const first = nodeRandom.bytes(8)
    const copy = Uint8Array.from(first)
    nodeRandom.bytes(8).fill(0)
    expect(first).toEqual(copy)
    expect(first.buffer.byteLength).toBe(8)
  })
})

describe('topologyFromEnvironment', () => {
  it('takes bytes and replicas, and names what does not fit', () => {
    expect(topologyFromEnvironment({})).toEqual({})
    expect(topologyFromEnvironment({ PASSOVER_STORAGE_BYTES: '1000000', PASSOVER_REPLICAS: '3' })).toEqual({
      storage_bytes: 1e6,
      replicas: 3,
    })
    for (const text of ['2', '0', 'three', '3.0'])
      expect(() => topologyFromEnvironment({ PASSOVER_REPLICAS: text })).toThrow(`PASSOVER_REPLICAS must be 1, 3, 5, not ${text}`)
    expect(() => topologyFromEnvironment({ PASSOVER_STORAGE_BYTES: '1GB' })).toThrow('PASSOVER_STORAGE_BYTES must be a number of bytes')
  })
})

describe('serverClock', () => {
  it('tells the time of the bus, and its timers can be taken back', async () => {
    const clock = serverClock({ now: () => 7 })
    expect(clock.now()).toBe(7)
    let fired = ''
    clock.after(1, () => (fired += 'a'))[Symbol.dispose]()
    await new Promise<void>((resolve) => {
      clock.after(2, () => {
        fired += 'b'
        resolve()
      })
    })
    expect(fired).toBe('b')
  })
})

describe('readTextFile', () => {
  it('gives undefined for what is no file', () => {
    expect(readTextFile('/')).toBeUndefined()
    expect(readTextFile(`${import.meta.dirname}/index.ts`)).toContain('import')
  })
})
