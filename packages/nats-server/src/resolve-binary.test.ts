import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { serverConfig } from './config.js'
import { mirrorsIn } from './debian-package.js'
import { assetName, checksumOf } from './official-release.js'
import { compareVersions, requireIsolation, resolveServerBinary, ServerUnavailable } from './resolve-binary.js'
import { cacheFolder } from './user-folders.js'

describe('versions', () => {
  it.each([
    ['2.12.0', '2.9.9', 1],
    ['2.9.0', '2.12.0', -1],
    ['2.15.1', '2.15.1', 0],
    ['2.15.1-RC.1', '2.15.1', 0],
    ['3.0', '2.99.9', 1],
  ])('%s compared with %s', (a, b, sign) => {
    expect(Math.sign(compareVersions(a, b))).toBe(sign)
  })
})

describe('requireIsolation', () => {
  it('refuses servers that pass on replies of clients unmapped', () => {
    expect(() => requireIsolation('2.13.9')).toThrow('isolated accounts need 2.14.0 or newer')
    expect(() => requireIsolation('2.14.0')).not.toThrow()
  })
})

describe('the cache', () => {
  it('follows XDG, then the home', () => {
    expect(cacheFolder({ XDG_CACHE_HOME: '/c', HOME: '/h' })).toBe('/c/passover/nats-server')
    expect(cacheFolder({ HOME: '/h' })).toBe('/h/.cache/passover/nats-server')
  })

  it('is named with what to set where it cannot be written', async () => {
    const failure = await resolveServerBinary({ env: { PATH: '', HOME: fileURLToPath(import.meta.url) } }).catch((error) => error)
    expect(failure).toBeInstanceOf(ServerUnavailable)
    expect(failure.message).toMatch(
      /resolve-binary\.test\.ts\/\.cache\/passover\/nats-server cannot be written \(ENOTDIR\); set XDG_CACHE_HOME/,
    )
    expect(failure.tried).not.toContainEqual(expect.objectContaining({ source: 'release' }))
  })
})

describe('the official release', () => {
  it('has an archive for each platform that it names', () => {
    expect(assetName('2.15.1', 'linux', 'x64')).toBe('nats-server-v2.15.1-linux-amd64')
    expect(assetName('2.15.1', 'darwin', 'arm64')).toBe('nats-server-v2.15.1-darwin-arm64')
    expect(assetName('2.15.1', 'win32', 'x64')).toBe('nats-server-v2.15.1-windows-amd64')
    expect(assetName('2.15.1', 'aix', 'ppc64')).toBeUndefined()
    expect(assetName('2.15.1', 'linux', 'mips')).toBeUndefined()
  })

  it('is checked against the line of exactly that file', () => {
    const [a, b] = ['a'.repeat(64), 'B'.repeat(64)]
    const sums = `${a}  nats-server-v2.15.1-linux-amd64.tar.gz.sig\n${b} *./nats-server-v2.15.1-linux-amd64.tar.gz\nnonsense\n`
    expect(checksumOf(sums, 'nats-server-v2.15.1-linux-amd64.tar.gz')).toBe('b'.repeat(64))
    expect(checksumOf(sums, 'nats-server-v2.15.1-linux-arm64.tar.gz')).toBeUndefined()
    expect(checksumOf('', 'x')).toBeUndefined()
  })
})

describe('mirrors that apt is set up with', () => {
  it('are read from targets and from addresses of an update, the main archive first', () => {
    expect(mirrorsIn('http://m.example/debian-security\nhttp://m.example/debian\nhttp://m.example/debian\n')).toEqual([
      'http://m.example/debian',
      'http://m.example/debian-security',
    ])
    const uris = "'https://m.example/x/debian/dists/stable/InRelease' m.example_x 0 \n'https://other.example/apt/dists/s/InRelease' o 0 "
    expect(mirrorsIn(uris)).toEqual(['https://m.example/x/debian', 'https://other.example/apt'])
    expect(mirrorsIn('Reading package lists...\n')).toEqual([])
  })
})

describe('the configuration', () => {
  const place = { name: 'n', host: '127.0.0.1', port: -1, store: '/s' }

  it('quotes times, so that 2m is not two million', () => {
    expect(serverConfig(place)).toContain('"sync_interval": "2m"')
    expect(serverConfig(place, { sync: 'always' })).toContain('"sync_interval": "always"')
  })

  it('lists what a user may, and refuses passwords that mean something else', () => {
    const permissions = { publish: ['a.>'], never: ['a.b'], subscribe: ['c'], answers: true }
    const { authorization } = JSON.parse(serverConfig(place, { users: [{ user: 'alice', password: 'p', permissions }] })) as {
      authorization: unknown
    }
    expect(authorization).toEqual({
      users: [
        {
          user: 'alice',
          password: 'p',
          permissions: {
            publish: { allow: ['a.>'], deny: ['a.b'] },
            subscribe: { allow: ['c'] },
            allow_responses: { max: 1, expires: '2m' },
          },
        },
      ],
    })
    for (const password of ['', 'with space', '$2a$11$hash', 'ü'])
      expect(() => serverConfig(place, { users: [{ user: 'x', password }] })).toThrow(/password/)
  })
})

it('says of each source why it gave nothing, and what to do', () => {
  const { message } = new ServerUnavailable([{ source: 'release', why: 'no way out' }])
  expect(message).toContain('release: no way out')
  expect(message).toMatch(/Install one and put it on PATH.*NATS_URL/)
})
