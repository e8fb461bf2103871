import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect, credsAuthenticator } from '@nats-io/transport-node'
import { openBus } from '@passover/bus'
import { decide } from '@passover/operator'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cli, Folder, json, ROOT, run, type Spawned, serverFile, until } from '../../support/fixtures/cli.js'
import { startProcess, type TestProcess } from '../../support/processes/processes.js'

interface Listed {
  name: string
  role: string
  public_key: string
  credentials: string
  expires_at?: number
  revoked_at?: number
}

/** An installation whose agents are isolated, with TLS, used as a person does: command by command, in this order. */
describe('passover auth, and up --isolated', () => {
  let cwd: string
  let up: Spawned
  const auth = (...args: string[]) => json<Listed>(['auth', ...args], { cwd })
  const credentials = (name: string) => join(cwd, '.passover', 'auth', 'creds', `${name}.creds`)
  const request = (...args: string[]) => run(['request', '--from', 'alice', '--to', 'greeter', '--objective', 'world', ...args], { cwd })

  beforeAll(async () => {
    // Below the repository, so that the example of the README finds its packages.
    cwd = mkdtempSync(join(ROOT, 'test', 'dist', 'isolated-'))
    // A repository of its own: the search for a project's server ends here, and does not find that of another test in the clone.
    mkdirSync(join(cwd, '.git'))
    up = cli(['up', '--isolated', '--tls', '--http', '0'], { cwd })
    await up.printed('is up', 'stdout', 120_000)
  }, 150_000)
  afterAll(async () => {
    await up[Symbol.asyncDispose]()
    rmSync(cwd, { recursive: true, force: true, maxRetries: 5 })
  })

  it('keeps keys for their owner alone, and refuses to overwrite them', async () => {
    const folder = join(cwd, '.passover', 'auth')
    for (const name of ['', 'creds', 'accounts', 'tls']) expect(statSync(join(folder, name)).mode & 0o777, name).toBe(0o700)
    for (const name of ['keys.json', 'tls/ca.key', 'tls/server.key', 'creds/passover.audit.creds'])
      expect(statSync(join(folder, name)).mode & 0o777, name).toBe(0o600)
    const keys = readFileSync(join(folder, 'keys.json'), 'utf8')
    const again = await run(['auth', 'init'], { cwd })
    expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining('has the keys of an installation') })
    expect(readFileSync(join(folder, 'keys.json'), 'utf8')).toBe(keys)
  })

  it('changes nothing if the file for the credentials cannot be written', async () => {
    const before = (await auth('list')).document
    for (const command of [
      ['add', 'agent', 'carla', '--out', 'missing/carla.creds'],
      ['add', 'agent', 'carla', '--out', '.git'],
      ['rotate', 'passover.notifier', '--out', '.git'],
    ])
      expect(await run(['auth', ...command], { cwd }), command.join(' ')).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('cannot be used'),
      })
    expect((await auth('list')).document).toEqual(before)
  })

  it('names the command for an agent and for a person without credentials', async () => {
    const agent = await json(['request', '--from', 'alice', '--to', 'greeter', '--objective', 'x'], { cwd })
    expect(agent).toMatchObject({
      code: 4,
      document: {
        error: { code: 'E013', message: expect.stringContaining('agent alice has no credentials'), hint: 'passover auth add agent alice' },
      },
    })
    // A person who names no originator is none.
    const own = await json(['request', 'greeter', 'hi', '--as', 'ann'], { cwd })
    expect(own).toMatchObject({
      code: 4,
      document: {
        error: { code: 'E013', hint: 'name the originator: --from <agent>; to add a new agent: passover auth add agent <name>' },
      },
    })
    const person = await json(['list', '--as', 'ann'], { cwd })
    expect(person).toMatchObject({ code: 4, document: { error: { code: 'E013', hint: 'passover auth add person ann' } } })
  })

  it('adds agents to the running server, with which the examples of the README run unchanged', async () => {
    for (const name of ['greeter', 'alice'])
      expect(await auth('add', 'agent', name)).toMatchObject({ code: 0, document: { name, server_told: true, registered: true } })
    expect(statSync(credentials('alice')).mode & 0o777).toBe(0o600)
    expect(await auth('add', 'person', 'alice')).toMatchObject({ code: 2, document: { error: { code: 'E031' } } })
    await using _greeter = await greeter()
    await using alice = example('alice.mjs')
    expect(await alice.line(/completed/)).toContain('completed Hello, world!')
    const { document: doctor } = await json<{ checks: { name: string; state: string; text: string }[] }>(['doctor'], { cwd })
    expect(doctor.checks.filter(({ state }) => state === 'broken')).toEqual([])
    expect(doctor.checks.find(({ name }) => name === 'isolation')).toMatchObject({ state: 'ok' })
  })

  it('finds nothing that an agent can do outside of its rights', async () => {
    const { code, document } = await json<{ ok: boolean; level: string; probes: { state: string }[] }>(['auth', 'check', 'alice'], { cwd })
    expect(document.probes.filter(({ state }) => state !== 'refused')).toEqual([])
    expect({ code, level: document.level, ok: document.ok }).toEqual({ code: 0, level: 'isolated', ok: true })
  })

  it('rotates: the worker reconnects with the new credentials by itself, the old ones are refused', async () => {
    await using greeting = await greeter()
    const old = join(cwd, 'old.creds')
    copyFileSync(credentials('greeter'), old)
    const { document } = await auth('rotate', 'greeter')
    expect(readFileSync(credentials('greeter'), 'utf8')).not.toBe(readFileSync(old, 'utf8'))
    expect(await request()).toMatchObject({ code: 0, stdout: expect.stringContaining('Hello, world!') })
    const { document: list } = await json<Listed[]>(['auth', 'list'], { cwd })
    expect(list.find(({ name }) => name === 'greeter')?.public_key).toBe(document.public_key)
    const refused = await run(['auth', 'check', 'greeter', '--credentials', old], { cwd })
    expect(refused).toMatchObject({ code: 5, stderr: expect.stringMatching(/authorization/i) })
    // A connection that was just made finds no consumer for a moment: that is no alarm, nor is being cut off while new credentials are there.
    expect(greeting.stderr).not.toMatch(/is gone|revoked/)
  })

  it('revokes: the worker is cut off at once and gets no work, and its credentials are refused from then on', async () => {
    await using greeting = await greeter()
    const kept = join(cwd, 'kept.creds')
    copyFileSync(credentials('greeter'), kept)
    expect(await auth('revoke', 'greeter')).toMatchObject({ code: 0, document: { name: 'greeter', server_told: true } })
    const told = 'credentials of agent greeter were revoked'
    await until('the worker says why it gets no work', () => greeting.stderr.includes(`greeter has stopped working: ${told}`))
    expect(greeting.stderr).not.toContain('is gone')
    const late = await json(['request', '--from', 'alice', 'greeter', 'world', '--timeout', '2s'], { cwd })
    expect(late).toMatchObject({
      code: 124,
      document: { error: { message: expect.stringContaining('no worker of greeter is connected') } },
    })
    expect(greeting.stderr).not.toContain('its heartbeat cannot be written')
    // What is seen of it: that pass is over, and waits no more.
    const { document: agents } = await json<{ name: string; queued: number; revoked_at?: number }[]>(['agents'], { cwd })
    expect(agents).toContainEqual(expect.objectContaining({ name: 'greeter', queued: 0, revoked_at: expect.any(Number) }))
    expect((await run(['agents'], { cwd })).stdout).toContain('greeter (revoked)')
    expect((await run(['agents', 'show', 'greeter'], { cwd })).stdout).toMatch(/revoked +credentials revoked/)
    const doctor = await run(['doctor'], { cwd })
    expect(doctor.stdout).toContain(told)
    expect(doctor.stdout).not.toContain('for it')
    const work = await run(['work', 'greeter', '--', 'cat'], { cwd })
    expect(work).toMatchObject({ code: 4, stderr: expect.stringContaining(told) })
    await using again = example('greeter.mjs')
    await until('a worker that starts says so, too', () => again.stderr.includes(told))
    expect(await run(['auth', 'check', 'greeter', '--credentials', kept], { cwd })).toMatchObject({ code: 5 })
    expect(await auth('rotate', 'greeter')).toMatchObject({ code: 3, document: { error: { code: 'E041' } } })
    const { document: list } = await json<Listed[]>(['auth', 'list'], { cwd })
    expect(list.find(({ name }) => name === 'greeter')?.revoked_at).toBeTypeOf('number')
    expect(list.find(({ name }) => name === 'alice')?.revoked_at).toBeUndefined()
    // The same name may come back, with credentials of its own.
    expect(await auth('add', 'agent', 'greeter')).toMatchObject({ code: 0 })
    await using _again = await greeter()
  })

  it('revokes: the gateway refuses the tokens of that name, and where it knows of no revocation of them, the credentials that are gone', async () => {
    const { document: token } = await json<{ id: string; token: string }>(['gateway', 'token', 'add', '--agent', 'greeter'], { cwd })
    // Another gateway, with tokens of its own.
    copyFileSync(join(cwd, '.passover', 'gateway-tokens.json'), join(cwd, 'tokens.json'))
    await using other = cli(['gateway', '--port', '0', '--tokens', 'tokens.json', '--json'], { cwd })
    await other.printed('}')
    const urls = [serverFile(cwd).http ?? '', (JSON.parse(other.stdout) as { url: string }).url]
    const open = (url: string) => fetch(`${url}/api/pass-over/events`, { headers: { authorization: `Bearer ${token.token}` } })
    const feeds = await Promise.all(urls.map(open))
    expect(feeds.map(({ status }) => status)).toEqual([200, 200])
    const ended = Promise.all(feeds.map((feed) => feed.text()))
    expect(await auth('revoke', 'greeter')).toMatchObject({ code: 0, document: { tokens_revoked: [token.id] } })
    expect(await request('--timeout', '2s')).toMatchObject({ code: 124 })
    for (const told of await ended) expect(told).not.toContain('event: passover')
    expect((await Promise.all(urls.map(open))).map(({ status }) => status)).toEqual([401, 403])
    expect(await auth('add', 'agent', 'greeter')).toMatchObject({ code: 0 })
    expect((await Promise.all(urls.map(open))).map(({ status }) => status)).toEqual([401, 200])
    expect((await run(['auth', 'revoke', 'greeter'], { cwd })).stdout).not.toContain('tokens')
    expect(await auth('add', 'agent', 'greeter')).toMatchObject({ code: 0 })
  })

  it('serves the HTTP API away from the project, with credentials of the gateway and of each owner of a token, and never without a token', async () => {
    using folder = new Folder()
    const tokens = join(folder.path, 'tokens.json')
    const owners = join(folder.path, 'owners.json')
    writeFileSync(owners, JSON.stringify({ greeter: credentials('greeter') }))
    const env = {
      NATS_URL: serverFile(cwd).url,
      PASSOVER_CA: join(cwd, '.passover', 'auth', 'tls', 'ca.pem'),
      PASSOVER_CREDENTIALS: credentials('passover.gateway'),
      PASSOVER_GATEWAY_CREDENTIALS: owners,
    }
    await using apart = cli(['gateway', '--port', '0', '--tokens', tokens, '--json'], { cwd: folder.path, env })
    await apart.printed('}')
    const { url } = JSON.parse(apart.stdout) as { url: string }
    const list = (token?: string) =>
      fetch(`${url}/api/pass-over/passes`, token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } })
    expect((await list()).status).toBe(401)
    const added = (name: string) => json<{ token: string }>(['gateway', 'token', 'add', '--agent', name, '--tokens', tokens], { cwd })
    const told = await list((await added('greeter')).document.token)
    expect({ status: told.status, body: await told.json() }).toMatchObject({ status: 200, body: { passes: expect.any(Array) } })
    expect((await list((await added('alice')).document.token)).status).toBe(403)
  })

  it('revokes: what the agent asked for is marked for people anywhere, approved only on purpose, and ended with one command', async () => {
    for (const principal of [
      ['agent', 'mallory'],
      ['person', 'maria'],
    ])
      expect(await auth('add', ...principal)).toMatchObject({ code: 0 })
    const { document: token } = await json<{ token: string }>(['gateway', 'token', 'add', '--as', 'maria'], { cwd })
    const hold = (...args: string[]) =>
      json<{ id: string }>(['request', '--from', 'mallory', 'greeter', 'x', '--hold', '--no-wait', ...args], { cwd })
    const ids: string[] = []
    for (const args of [[], ['--session', 'night'], []]) ids.push((await hold(...args)).document.id)
    const [id = ''] = ids
    // A person without the files of the project, who knows of the revocation only what the installation tells.
    using folder = new Folder()
    const env = {
      NATS_URL: serverFile(cwd).url,
      PASSOVER_CA: join(cwd, '.passover', 'auth', 'tls', 'ca.pem'),
      PASSOVER_CREDENTIALS: credentials('person.maria'),
      PASSOVER_AS: 'maria',
    }
    const away = { cwd: folder.path, env }
    await until('all are held', async () => (await json<unknown[]>(['inbox', '--from', 'mallory'], away)).document.length === ids.length)

    const revoked = await json(['auth', 'revoke', 'mallory'], { cwd })
    expect(revoked).toMatchObject({ code: 0, document: { registry_told: true, open_passes: ids.length } })
    expect((await run(['auth', 'revoke', 'mallory'], { cwd })).stdout).toContain(
      'still open. To cancel them: passover cancel --from mallory --all',
    )
    const mark = { revoked: { agent: 'mallory', at: expect.any(Number) } }
    await until('the registry is read', async () => (await run(['inbox', '--from', 'mallory'], away)).stdout.includes('revoked'))
    expect((await json(['inbox', '--from', 'mallory'], away)).document).toMatchObject(ids.map(() => mark))
    expect((await run(['show', id], away)).stdout.match(/⚠ credentials of mallory were revoked/g)).toHaveLength(2)
    expect((await json(['show', id], away)).document).toMatchObject({ ...mark, due: mark })
    expect((await json(['agents'], away)).document).toContainEqual(
      expect.objectContaining({ name: 'mallory', revoked_at: expect.any(Number) }),
    )
    expect((await run(['doctor'], { cwd })).stdout).toContain(
      `${ids.length} passes from mallory, requested before its revocation, are still open`,
    )

    const why = 'credentials of mallory were revoked'
    expect(await json(['approve', id, '--yes'], away)).toMatchObject({
      code: 4,
      document: { error: { code: 'E013', message: expect.stringContaining(why), hint: expect.stringContaining('--despite-revocation') } },
    })
    const approve = async (body: object) => {
      const answer = await fetch(`${serverFile(cwd).http}/api/pass-over/passes/${id}/approve`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token.token}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      return { status: answer.status, body: await answer.json() }
    }
    expect(await approve({})).toMatchObject({ status: 403, body: { code: 'E013', detail: expect.stringContaining(why) } })
    expect((await json(['show', id], away)).document).toMatchObject({ status: 'held', decisions: [] })
    // A decision of another client, which does not say that it is made despite the revocation, does not count.
    const { digest } = (await json<{ due: { digest: string } }>(['show', id], away)).document.due
    {
      await using bus = await openBus({
        servers: env.NATS_URL,
        identity: 'maria',
        credentials: { credsFile: env.PASSOVER_CREDENTIALS },
        tls: { ca: env.PASSOVER_CA },
      })
      const key = { originator: 'mallory', subagent: 'greeter', id }
      expect(await decide(bus, { key, item: 'dispatch', verdict: 'approve', digest }, async () => false)).toMatchObject({ kind: 'won' })
    }
    await until('it is recorded', async () => (await run(['show', id], away)).stdout.includes('an approval without despite_revocation'))
    expect((await json(['show', id], away)).document).toMatchObject({
      status: 'held',
      decisions: [{ counts: false, why: 'a violation' }],
      due: { item: 'dispatch' },
    })
    expect((await json<unknown[]>(['inbox', '--from', 'mallory'], away)).document).toHaveLength(ids.length)
    const dispatched = { decided: true, status: expect.not.stringContaining('held') }
    expect(await json(['approve', String(ids[1]), '--yes', '--despite-revocation'], away)).toMatchObject({ code: 0, document: dispatched })
    expect(await approve({ despite_revocation: true })).toMatchObject({ status: 200, body: dispatched })

    const cancel = (...args: string[]) => json<{ would_cancel?: string[] }>(['cancel', '--from', 'mallory', ...args], away)
    expect(await cancel('--all')).toMatchObject({ code: 2, document: { error: { hint: expect.stringContaining('--yes') } } })
    expect((await cancel('--all', '--dry-run')).document.would_cancel?.sort()).toEqual([...ids].sort())
    expect(await cancel('--session', 'night')).toMatchObject({ code: 0, document: { session: 'night', ended: 1, still_open: 0 } })
    expect(await cancel('--all', '--yes')).toMatchObject({ code: 0, document: { from: 'mallory', ended: 2, still_open: 0 } })
    const { document: all } = await json<{ status: string }[]>(['list', '--from', 'mallory'], away)
    expect(all.map(({ status }) => status)).toEqual(ids.map(() => 'cancelled'))

    expect(await auth('add', 'agent', 'mallory')).toMatchObject({ code: 0, document: { registered: true } })
    await hold()
    const waiting = () => json<object[]>(['inbox', '--from', 'mallory'], away)
    await until('it may ask again', async () => (await waiting()).document.length === 1)
    expect((await waiting()).document[0]).not.toHaveProperty('revoked')
  })

  it('adds people to the running installation, who see every pass until they are revoked', async () => {
    expect(await auth('add', 'person', 'ann')).toMatchObject({ code: 0 })
    const seen = async () => (await run(['list', '--as', 'ann'], { cwd })).stdout.includes('greeter')
    await until('ann is told about passes of others', seen)
    expect(await auth('revoke', 'ann')).toMatchObject({ code: 0 })
    expect(await run(['list', '--as', 'ann'], { cwd })).toMatchObject({ code: 4 })
  })

  it('has records and an index rebuilt by the audit service for an auditor or a custodian, and for nobody else', async () => {
    for (const [role, name] of [
      ['person', 'paul'],
      ['auditor', 'aud'],
    ] as const)
      expect(await auth('add', role, name)).toMatchObject({ code: 0 })
    const isKnown = async () => (await run(['list', '--as', 'aud'], { cwd })).stdout.includes('greeter')
    await until('the audit service knows the auditor', isKnown)
    const rebuild = (...args: string[]) => json<Record<string, unknown>>(['audit', 'rebuild', ...args], { cwd })
    const { url } = serverFile(cwd)
    const creds = readFileSync(credentials('passover.audit'))
    const nc = await connect({
      servers: url,
      authenticator: credsAuthenticator(creds),
      inboxPrefix: '_INBOX_passover',
      tls: { caFile: join(cwd, '.passover', 'auth', 'tls', 'ca.pem') },
    })
    const purge = async () => expect((await nc.request('$JS.API.STREAM.PURGE.KV_passes')).string()).toContain('"success":true')
    for (const person of ['root', 'aud']) {
      await purge()
      const { code, document } = await rebuild('--as', person)
      expect({ code, document }).toMatchObject({ code: 0, document: { unchanged: 0, removed: 0 } })
      expect(document.rewritten).toBeGreaterThan(3)
    }
    await nc.close()
    expect((await rebuild()).document).toMatchObject({ rewritten: 0 })
    expect(await rebuild('--as', 'paul')).toMatchObject({
      code: 4,
      document: { error: { code: 'E013', message: expect.stringContaining('paul may not'), hint: expect.stringContaining('auditor') } },
    })
  }, 120_000)

  it('ends credentials at their time, and says so', async () => {
    const { document } = await auth('add', 'agent', 'brief', '--expires', '1s')
    await until('the credentials end', () => Date.now() > (document.expires_at ?? Number.POSITIVE_INFINITY))
    const { code, document: failed } = await json<{ error: { message: string; hint: string } }>(
      ['request', '--from', 'brief', '--to', 'greeter', '--objective', 'x'],
      { cwd },
    )
    expect({ ...failed.error, code }).toMatchObject({
      code: 5,
      message: expect.stringContaining('expired'),
      hint: expect.stringContaining('passover auth rotate brief'),
    })
  })

  it('isolates a project that was not, with what it had, and stays isolated without the flag', async () => {
    using folder = new Folder()
    const start = async (...args: string[]) => {
      const started = cli(['up', ...args], { cwd: folder.path })
      await started.printed('is up', 'stdout', 120_000)
      return started
    }
    await using before = await start()
    expect(await run(['agents', 'add', 'reader'], { cwd: folder.path })).toMatchObject({ code: 0 })
    await before[Symbol.asyncDispose]()
    for (const args of [['--isolated'], []]) {
      await using after = await start(...args)
      expect(await run(['agents'], { cwd: folder.path })).toMatchObject({ code: 0, stdout: expect.stringContaining('reader') })
      expect(await run(['work', 'reader', '--', 'cat'], { cwd: folder.path })).toMatchObject({ code: 4 })
      await after[Symbol.asyncDispose]()
    }
  })

  function save(name: string): string {
    const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
    const text = new RegExp(`<!-- example: ${name} -->\\n\`\`\`js\\n([\\s\\S]*?)\`\`\``).exec(readme)?.[1]
    if (!text) throw new Error(`the README has no example ${name}`)
    writeFileSync(join(cwd, name), text)
    return name
  }

  /** An example of the README, started as a process of its own. */
  function example(name: string): TestProcess {
    return startProcess(join(cwd, save(name)), { cwd, env: { NATS_URL: undefined, PASSOVER_AGENT: undefined } })
  }

  /** The subagent of the README, once it has answered. */
  async function greeter(): Promise<TestProcess> {
    const started = example('greeter.mjs')
    expect(await request()).toMatchObject({ code: 0, stdout: expect.stringContaining('Hello, world!') })
    return started
  }
})
