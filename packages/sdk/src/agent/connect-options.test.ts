import { describe, expect, it } from 'vitest'
import { type ConnectEnvironment, checkConnectOptions, resolveSettings } from './connect-options.js'

const around: ConnectEnvironment = { env: {}, cwd: '/work', readFile: () => undefined }
const file = { url: 'nats://127.0.0.1:4333', user: 'u', password: 'p' }
const project = () => ({ folder: '/work/.passover', path: '/work/.passover/server.json', file })

describe('the options of connect', () => {
  it.each<[object, string]>([
    [{ server: 'nats://x:1' }, 'server: unknown option; did you mean servers?'],
    [{ durable_returns: true }, 'durable_returns is durableReturns now'],
    [{ credentials: { creds_file: 'x' } }, 'credentials.creds_file is credentials.credsFile now'],
    [{ auto_apply: true }, 'auto_apply is autoApply now'],
    [{ session_id: 's' }, 'session_id is sessionId now'],
    [{ durble_returns: true }, 'durble_returns: unknown option; did you mean durableReturns?'],
    [{ servers: 4222 }, 'servers: must be text or a list, not a number'],
    [{ notify: 'me' }, 'notify: must be a function'],
    [{ durableReturns: 'yes' }, 'durableReturns: must be true or false, not text'],
    [Object.defineProperty({}, 'prefix', { enumerable: true, get: () => JSON.parse('no') }), 'prefix: cannot be read'],
  ])('are refused where they are wrong (%#)', (options, message) => {
    expect(() => checkConnectOptions(options)).toThrow(message)
  })
})

describe('resolveSettings', () => {
  it('argument > environment > project > default', () => {
    const env = { PASSOVER_AGENT: 'envy', NATS_URL: 'nats://env:1, nats://env:2', PASSOVER_CREDENTIALS: 'me:secret' }
    expect(resolveSettings({ agent: 'alice', servers: 'nats://arg:1' }, { ...around, env, project })).toEqual({
      agent: 'alice',
      servers: ['nats://arg:1'],
      credentials: { user: 'me', pass: 'secret' },
      directory: '/work',
      autoApply: false,
      source: 'argument',
      from: 'connect()',
    })
    expect(resolveSettings({}, { ...around, env, project })).toMatchObject({
      agent: 'envy',
      servers: ['nats://env:1', 'nats://env:2'],
      source: 'environment',
    })
    expect(resolveSettings({ agent: 'alice' }, { ...around, project })).toMatchObject({
      servers: [file.url],
      from: '/work/.passover/server.json',
      credentials: { user: 'u', pass: 'p' },
    })
    expect(resolveSettings({ agent: 'alice' }, around)).toMatchObject({ servers: ['nats://127.0.0.1:4222'], source: 'default' })
  })

  it('applies automatically only where the code or the user allows it', () => {
    const allowing = { ...around, mayAutoApply: (directory: string) => directory === '/p' }
    expect(resolveSettings({ agent: 'alice', directory: '/p' }, around).autoApply).toBe(false)
    expect(resolveSettings({ agent: 'alice', directory: '/p' }, allowing).autoApply).toBe(true)
    expect(resolveSettings({ agent: 'alice', directory: '/q' }, allowing).autoApply).toBe(false)
    expect(resolveSettings({ agent: 'alice', directory: '/p', autoApply: false }, allowing).autoApply).toBe(false)
    expect(resolveSettings({ agent: 'alice' }, { ...allowing, cwd: '/p' }).autoApply).toBe(false)
    expect(resolveSettings({ agent: 'alice', autoApply: true }, around)).toMatchObject({ autoApply: true, directory: '/work' })
  })

  it('does not sign in at another server with the project`s password', () => {
    expect(resolveSettings({ agent: 'alice', servers: 'nats://far:4222' }, { ...around, project }).credentials).toBeUndefined()
  })

  it('signs in with the agent`s own credentials where a project keeps its agents apart, and says what to do without', () => {
    const tls = { ca: '/work/.passover/auth/ca.pem' }
    const access = (folder: string, agent: string) => ({
      tls,
      ...(agent === 'alice' ? { credentials: { credsFile: `${folder}/alice` } } : {}),
    })
    const isolated = { ...around, project, access }
    expect(resolveSettings({ agent: 'alice' }, isolated)).toMatchObject({ credentials: { credsFile: '/work/.passover/alice' }, tls })
    expect(() => resolveSettings({ agent: 'scout' }, isolated)).toThrow(
      expect.objectContaining({
        code: 'E013',
        message: expect.stringMatching(/^agent scout has no credentials, .* passover auth add agent scout$/),
      }),
    )
    expect(resolveSettings({ agent: 'scout', credentials: { token: 't' } }, isolated)).toMatchObject({ credentials: { token: 't' }, tls })
  })

  it('takes the id window that the services are told for as long as the stream says none, and no shorter one than they do', () => {
    const of = (PASSOVER_ID_WINDOW_MS?: string) =>
      resolveSettings({ agent: 'alice' }, { ...around, env: { PASSOVER_ID_WINDOW_MS } }).unknownWindowMs
    expect([of('5000'), of('999'), of('soon'), of()]).toEqual([5000, undefined, undefined, undefined])
  })

  it('refuses a missing and a malformed name', () => {
    for (const agent of [undefined, '', 'a b', 'passover', '-x', 'a.b', '*']) {
      expect(() => resolveSettings({ agent }, around)).toThrow(expect.objectContaining({ code: 'E005' }))
    }
  })

  it('reads credentials from text or from a file', () => {
    const creds = '-----BEGIN NATS USER JWT-----\nx\n------END NATS USER JWT------'
    const readFile = (path: string) => (path === '/a.creds' ? `${creds}\n` : undefined)
    // The path, so that credentials that were rotated are read again.
    expect(resolveSettings({ agent: 'a' }, { ...around, readFile, env: { PASSOVER_CREDENTIALS: '/a.creds' } }).credentials).toEqual({
      credsFile: '/a.creds',
    })
    expect(resolveSettings({ agent: 'a' }, { ...around, env: { PASSOVER_CREDENTIALS: creds } }).credentials).toEqual({ creds })
    expect(resolveSettings({ agent: 'a' }, { ...around, env: { PASSOVER_CREDENTIALS: 'user:pass' } }).credentials).toEqual({
      user: 'user',
      pass: 'pass',
    })
  })
})
