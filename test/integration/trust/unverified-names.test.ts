import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Bus, openBus } from '@passover/bus'
import { publishCustodyEvent } from '@passover/operator'
import type { Agent } from '@passover/sdk'
import { describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { permittedAgents } from '../../support/dispatcher/permitted-agents.js'
import { runInProcess } from '../../support/processes/in-process.js'
import { until } from '../../support/processes/until.js'

interface Installed extends AsyncDisposable {
  url: string
  alice: Agent
  /** A connection that may ask as alice. */
  asking: Bus
  person: Bus
}

async function open(): Promise<Installed> {
  const world = await AgentWorld.start({ audit: { open: true } })
  await world.world.agent('alice', { originates: 'always', subagent: false })
  await world.world.agent('helper')
  const [url = ''] = world.world.nats.servers
  const person = await openBus({ servers: url, identity: 'maria', onError: () => undefined })
  const close = async () => {
    await person[Symbol.asyncDispose]()
    await world[Symbol.asyncDispose]()
  }
  return { url, alice: await world.agent('alice'), asking: world.world.bus, person, [Symbol.asyncDispose]: close }
}

async function permitted(): Promise<Installed> {
  const made = await permittedAgents({ names: ['alice', 'helper'], person: 'custodian' })
  const { fixture, agents, person } = made
  const credentials = fixture.credentials({ role: 'custodian', name: 'maria' })
  if (!('user' in credentials)) throw new Error('the fixture signs in with passwords')
  const url = new URL(fixture.nats.servers[0] ?? '')
  Object.assign(url, { username: credentials.user, password: credentials.pass })
  const asking = await fixture.bus({ role: 'agent', name: 'alice', originates: true, subagent: false })
  return { url: url.href, alice: agents.alice, asking, person, [Symbol.asyncDispose]: () => made[Symbol.asyncDispose]() }
}

describe.each([
  { mode: 'a server without permissions', start: open, verified: false },
  { mode: 'a server with permissions', start: permitted, verified: true },
])('on $mode', ({ start, verified }) => {
  it(`names of people are ${verified ? 'not marked' : 'marked as unverified'} in text and --json`, { timeout: 90_000 }, async () => {
    await using installed = await start()
    const { alice, asking, person } = installed
    const directory = mkdtempSync(join(tmpdir(), 'passover-names-'))
    using _folder = { [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }) }
    mkdirSync(join(directory, '.opencode'))
    const writePolicy = (timeout_ms: number) =>
      writeFileSync(join(directory, '.opencode', 'pass-over.json'), JSON.stringify({ defaults: { timeout_ms } }))
    const passover = (...line: string[]) =>
      runInProcess([...line, '--as', 'maria', '--server', installed.url, '--directory', directory], { NO_COLOR: '1' })
    /** Runs a command and expects its text or document to name maria, with a mark only where names are not verified. */
    const names = async (...line: string[]): Promise<string> => {
      const { code, stdout, stderr } = await passover(...line)
      const seen = { line, code, named: stdout.includes('maria'), marked: /maria \(unverified\)|"unverified": ?true/.test(stdout) }
      expect(seen, stdout + stderr).toEqual({ line, code: 0, named: true, marked: !verified })
      return stdout
    }
    const both = async (...line: string[]) => {
      await names(...line)
      await names(...line, '--json')
    }

    writePolicy(60_000)
    await names('policy', 'push')
    writePolicy(61_000)
    await names('policy', 'push', '--json')
    await names('policy', 'rollback', '1')
    await names('policy', 'set', 'timeout_ms', '62s', '--global', '--json')
    await both('policy', 'history')

    await both('agents', 'add', 'builder')
    await both('agents', 'set', 'builder', '--description', 'builds')
    await both('agents', 'show', 'builder')
    await both('agents')
    await names('agents', 'remove', 'builder')
    await passover('agents', 'add', 'builder')
    await names('agents', 'remove', 'builder', '--json')

    const held = async () => {
      const asked = alice.passOver({
        subagent: 'helper',
        reason: 'r',
        work_context: { objective: 'o' },
        override: { hold_before_dispatch: true },
      })
      asked.result().catch(() => undefined)
      const isListed = async () => ((await passover('inbox')).stdout.includes(asked.id) ? true : undefined)
      await until(isListed, { what: 'it is held' })
      return asked.id
    }
    const id = await held()
    const hold = JSON.parse(await names('audit', 'hold', 'add', '--pass', id, '--reason', 'r', '--json')).hold as number
    await until(async () => ((await passover('audit', 'hold', 'list')).stdout.includes(id) ? true : undefined), { what: 'it is listed' })
    await both('audit', 'hold', 'list')
    await names('audit', 'hold', 'remove', String(hold))
    await names('audit', 'hold', 'add', '--pass', id, '--reason', 'r')
    await names('audit', 'tail', '--custody', '--since', '1h', '--count', '1')
    await names('audit', 'tail', '--custody', '--since', '1h', '--count', '1', '--json')
    await names('cancel', id)
    await both('show', id)
    await names('watch', '--all', id, '--count', '3')
    await names('cancel', await held(), '--json')

    await publishCustodyEvent(person, { kind: 'erase', session: 'none', reason: 'r' })
    await until(async () => ((await passover('audit', 'erase')).stdout.includes('none') ? true : undefined), { what: 'it is listed' })
    await both('audit', 'erase')

    const letter = async () => {
      const subject = asking.subjects.request('helper', 'alice')
      const sent = await asking.publish({ subject, data: new TextEncoder().encode('not a request'), headers: {} })
      if (sent.kind !== 'stored') throw new Error(sent.kind)
      const bad = asking.subjects.badId(sent.sequence)
      await until(async () => ((await passover('dlq', 'list')).stdout.includes(bad) ? true : undefined), { what: 'it is a dead letter' })
      return bad
    }
    const dead = await letter()
    await names('dlq', 'drop', dead)
    await both('dlq', 'list')
    await both('dlq', 'show', dead)
    await names('dlq', 'drop', dead)
    await names('dlq', 'drop', await letter(), '--json')
  })
})
