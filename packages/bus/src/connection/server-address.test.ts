import { describe, expect, it } from 'vitest'
import { parseServers, SettingError, withoutSecrets } from './server-address.js'

describe('parseServers', () => {
  it.each<[string | string[], string[], object?]>([
    ['nats://127.0.0.1:4222', ['nats://127.0.0.1:4222']],
    ['host', ['nats://host']],
    [' nats://a:1/, b:2,, tls://c ', ['nats://a:1', 'nats://b:2', 'tls://c']],
    [
      ['nats://a:1', 'b:2,c:3'],
      ['nats://a:1', 'nats://b:2', 'nats://c:3'],
    ],
    ['[::1]:4222', ['nats://[::1]:4222']],
    ['nats://ann:s%20cret@host:4222', ['nats://host:4222'], { user: 'ann', pass: 's cret' }],
    ['nats://token@host:4222', ['nats://host:4222'], { token: 'token' }],
    ['nats://u:p%25%40%2F%2C@a,nats://u:p%25%40%2F%2C@b', ['nats://a', 'nats://b'], { user: 'u', pass: 'p%@/,' }],
    ['nats://u:p@a,b', ['nats://a', 'nats://b'], { user: 'u', pass: 'p' }],
  ])('reads %j', (given, servers, credentials) => {
    expect(parseServers(given, 'NATS_URL')).toEqual({ servers, ...(credentials && { credentials }) })
  })

  it.each<[string | string[], RegExp]>([
    ['', /^NATS_URL: no server is named$/],
    [[' , '], /^NATS_URL: no server is named$/],
    ['http://[', /^NATS_URL: "http:\/\/\[" is not a server address$/],
    ['nats://host:99999', /^NATS_URL: "nats:\/\/host:99999" is not a server address$/],
    ['http://u:s3cret@host:1', /^NATS_URL: http:\/\/host:1 is not a NATS address$/],
    ['nats://', /^NATS_URL: "nats:\/\/" has no host$/],
    ['nats://::1:4222', /^NATS_URL: it is not a server address$/],
    ['nats://u:s3cret', /^NATS_URL: it is not a server address$/],
    ['nats://u:s3cret%@h', /^NATS_URL: .* a % that is not percent-encoded$/],
    ['nats://u:s3cret#s3cret@h', /^NATS_URL: it is not a server address$/],
    ['nats://h/s3cret@x', /^NATS_URL: it has text after host and port$/],
    ['nats://:s3cret@h', /^NATS_URL: it has a password but no user$/],
    ['a:1,nats://u:s3cret/s3cret@h', /^NATS_URL: number 2 is not a server address$/],
    ['nats://u:s3cret,s3cret@h', /^NATS_URL: number 1 is not a server address$/],
    ['nats://u:s3cret@a,nats://u:s3cret2@b', /^NATS_URL: its addresses have different users or passwords$/],
  ])('refuses %j without showing a secret', (given, message) => {
    expect(() => parseServers(given, 'NATS_URL')).toThrow(SettingError)
    expect(() => parseServers(given, 'NATS_URL')).toThrow(message)
    expect(() => parseServers(given, 'NATS_URL')).not.toThrow(/s3cret/)
  })
})

it('withoutSecrets shows where a server is', () => {
  expect(withoutSecrets('nats://u:p@h:1')).toBe('nats://h:1')
  expect(withoutSecrets('h:1')).toBe('h:1')
})
