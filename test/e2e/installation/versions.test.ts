import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { type Bus, decode, encode, openBus } from '@passover/bus'
import { passAnswer } from '@passover/schemas'
import type * as Sdk from '@passover/sdk'
import { describe, expect, test } from 'vitest'
import { Folder, json } from '../../support/fixtures/cli.js'
import { durable, listener } from '../../support/fixtures/delivery.js'
import { GatewayWorld } from '../../support/fixtures/gateway.js'
import { startProcess, type TestProcess } from '../../support/processes/processes.js'
import { until } from '../../support/processes/until.js'
import { type NatsFixture, natsFixture } from '../../support/servers/nats.js'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const { commit } = JSON.parse(readFileSync(`${ROOT}infra/test/previous.json`, 'utf8')) as { commit: string }
const VERSIONS = { previous: `${ROOT}node_modules/.cache/passover-previous/${commit}/`, current: ROOT }
type Key = { originator: string; subagent: string; id: string }
type Version = keyof typeof VERSIONS
const BOTH: Version[] = ['previous', 'current']

function sdkOf(version: Version): Promise<typeof Sdk> {
  return import(pathToFileURL(`${VERSIONS[version]}packages/sdk/dist/index.js`).href) as Promise<typeof Sdk>
}

/** Dispatcher and audit of one version, as processes. */
async function services(nats: NatsFixture, version: Version): Promise<AsyncDisposable> {
  const env = { NATS_URL: nats.url, PASSOVER_OPEN: 'true', PASSOVER_LOG_LEVEL: 'info' }
  const start = (name: string) => startProcess(`${VERSIONS[version]}services/${name}/dist/main.js`, { env, name: `${version} ${name}` })
  const [dispatcher, audit] = [start('dispatcher'), start('audit')]
  await said(dispatcher, version === 'previous' ? 'dispatcher takes requests' : 'dispatcher accepts requests')
  await said(audit, version === 'previous' ? 'audit reads' : 'audit service started')
  return {
    async [Symbol.asyncDispose]() {
      await Promise.all([dispatcher.kill('SIGTERM'), audit.kill('SIGTERM')])
    },
  }
}

async function said(service: TestProcess, text: string): Promise<void> {
  await until(
    () => {
      if (!service.running) throw new Error(`ended: ${service.stderr}`)
      return service.stderr.includes(text)
    },
    { what: text },
  )
}

/** What a pass that ended returned, asked again by its id. */
async function told(agents: typeof Sdk, nats: NatsFixture, { originator, subagent, id }: Key): Promise<string> {
  await using agent = await agents.connect({ agent: originator, servers: nats.servers })
  const answer = await agent.passOver({ id, subagent, reason: 'review', work_context: { objective: subagent.slice(7), session_id: 's' } })
  return String(answer.output)
}

/** What the audit answers about a pass, once it has read it. */
async function record(bus: Bus, { id }: Key) {
  const answer = await until(
    async () => {
      const read = passAnswer.safeParse(await bus.ask({ op: 'pass', id, history: true }, { timeout_ms: 5_000 }))
      return read.data?.ok ? read.data : undefined
    },
    { what: `the audit answers about ${id}` },
  )
  return answer.passes.map(({ row }) => row)
}

describe('a request of a newer wire version', () => {
  test('is told as refused, by its own id, to a durable return, over HTTP, by show and by request', async () => {
    await using gateway = await GatewayWorld.start()
    const { world } = gateway.agents
    await world.agent('audit')
    using folder = new Folder()
    const options = { cwd: folder.path, env: { NATS_URL: world.nats.url, PASSOVER_AS: 'ann' } }
    await using alice = await durable(gateway.agents, 'alice')
    const heard = listener()
    await alice.agent.onDurableReturn(heard.hears)

    const { key, data, headers } = world.request({ from: 'alice', to: 'audit' })
    const decoded = decode(data)
    const newer = encode({ ...(decoded.ok ? (decoded.value as object) : {}), v: 2 }, 'msgpack')
    await world.send(newer, { headers })

    await until(() => heard.told.length > 0, { what: 'the waiting return is told' })
    const refusal = { code: 'E005', message: expect.stringContaining('wire version 2') }
    expect(heard.told).toMatchObject([{ pass: key, error: refusal }])
    const body = { id: key.id, subagent: 'audit', reason: 'review', work_context: { objective: 'look' } }
    const over = await gateway.ask('agent~alice', '/passes', { body, headers: { prefer: 'wait=20' } })
    expect(over.body).toMatchObject({ code: 'E005', detail: expect.stringContaining('wire version 2'), pass_id: key.id })
    expect((await gateway.ask('ann', `/passes/${key.id}`)).body).toMatchObject({ status: 'refused', record: { key, error: refusal } })

    const shown = await json(['show', key.id], options)
    expect(shown).toMatchObject({ code: 0, document: { status: 'refused', record: { key, error: refusal } } })
    const asked = await json(['request', 'audit', 'look', '--from', 'alice', '--id', key.id], options)
    expect(asked).toMatchObject({ code: 2, document: { error: { code: 'E005', message: expect.stringContaining('wire version 2') } } })
  })
})

// `npm run test:upgrade` builds the previous version.
describe.skipIf(!existsSync(VERSIONS.previous))(`the current version and commit ${commit}, built by npm run test:upgrade`, () => {
  test('agents of both versions pass work over both, and each version tells again what ended under the other', async () => {
    await using nats = await natsFixture({})
    await using bus = await openBus({ servers: nats.servers, identity: 'ann', onError: () => undefined })
    const passed: Key[] = []
    const ended: string[] = []
    let turn = 0
    // Upgraded, and taken back.
    for (const version of ['previous', 'current', 'previous'] satisfies Version[]) {
      await using _services = await services(nats, version)
      turn++
      for (const key of passed) expect(await told(await sdkOf('current'), nats, key), version).toBe(`read ${key.subagent.slice(7)}`)
      for (const key of passed) {
        expect(await record(bus, key), `${version} about ${key.originator}`).toMatchObject([
          { ...key, status: expect.stringMatching(/^(returned|processed)$/) },
        ])
      }
      for (const workers of BOTH) {
        const worker = await (await sdkOf(workers)).connect({ agent: `worker-${workers}`, servers: nats.servers })
        await using _worker = worker
        await worker.onPass((pass) => `read ${pass.context.objective}`)
        for (const originators of BOTH) {
          const name = `${originators}-${turn}`
          await using originator = await (await sdkOf(originators)).connect({ agent: name, servers: nats.servers })
          const pass = originator.passOver({
            subagent: worker.name,
            reason: 'review',
            work_context: { objective: workers, session_id: 's' },
          })
          const output = await pass
          expect(output.output, `${originators} to ${workers} over ${version}`).toBe(`read ${workers}`)
          passed.push({ originator: name, subagent: worker.name, id: await pass.id })
          const refused = await originator
            .passOver({ subagent: 'nobody', reason: 'review', work_context: { objective: 'x' } })
            .catch((e) => e)
          ended.push(`${originators} ${refused.code}`)
        }
      }
    }
    expect(passed).toHaveLength(12)
    expect(new Set(ended)).toEqual(new Set(['previous E001', 'current E001']))
  })
})
