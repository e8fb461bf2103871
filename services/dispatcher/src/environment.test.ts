import { describe, expect, test } from 'vitest'
import { readEnvironment } from './environment.js'

const noFile = () => undefined

describe('readEnvironment', () => {
  test('defaults to the local server and open registration', () => {
    expect(readEnvironment({}, noFile)).toEqual({
      bus: { servers: ['nats://127.0.0.1:4222'] },
      settings: {},
      log_level: 'info',
      topology: {},
    })
  })

  test.each([
    ['user and password', 'ann:secret:2', { user: 'ann', pass: 'secret:2' }],
    ['a token', 's3cret', { token: 's3cret' }],
    ['an nkey seed', `SU${'A'.repeat(56)}`, { nkey: `SU${'A'.repeat(56)}` }],
  ])('takes %s as credentials', (_, text, credentials) => {
    expect(readEnvironment({ PASSOVER_CREDENTIALS: text }, noFile).bus.credentials).toEqual(credentials)
  })

  test('keeps the path of a credentials file, which is read again at each connection', () => {
    const creds = '-----BEGIN NATS USER JWT-----\nabc\n------END NATS USER JWT------'
    const { credentials } = readEnvironment({ PASSOVER_CREDENTIALS: '/etc/dispatcher.creds' }, () => creds).bus
    expect(credentials).toEqual({ credsFile: '/etc/dispatcher.creds' })
  })

  test('passes on prefix, stream, registration, window and policy', () => {
    const env = {
      NATS_URL: 'nats://a:1, nats://b:2',
      PASSOVER_PREFIX: 'team',
      PASSOVER_STREAM: 'TEAM',
      PASSOVER_REGISTRATION: 'closed',
      PASSOVER_ID_WINDOW_MS: '5000',
      PASSOVER_POLICY: 'policy.json',
    }
    const told = readEnvironment(env, () => '{"defaults":{"timeout_ms":5}}')
    expect(told.bus).toEqual({ servers: ['nats://a:1', 'nats://b:2'], prefix: 'team', stream: 'TEAM' })
    expect(told.settings).toEqual({
      registration: 'closed',
      id_window_ms: 5000,
      policy: { version: 0, document: { defaults: { timeout_ms: 5 } } },
    })
  })
})
