import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type * as Sdk from '@passover/sdk'
import { describe, expect, test } from 'vitest'
import { type NatsFixture, natsFixture } from '../support/nats.js'
import { startProcess, type TestProcess } from '../support/processes.js'
import { until } from '../support/until.js'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
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
  await said(dispatcher, 'dispatcher takes requests')
  await said(audit, 'audit reads')
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

// `npm run test:upgrade` builds the previous version.
describe.skipIf(!existsSync(VERSIONS.previous))(`the current version and commit ${commit}, built by npm run test:upgrade`, () => {
  test('agents of both versions pass work over both, and each version tells again what ended under the other', async () => {
    await using nats = await natsFixture({})
    const passed: Key[] = []
    const ended: string[] = []
    let turn = 0
    // Upgraded, and taken back.
    for (const version of ['previous', 'current', 'previous'] satisfies Version[]) {
      await using _services = await services(nats, version)
      turn++
      for (const key of passed) expect(await told(await sdkOf('current'), nats, key), version).toBe(`read ${key.subagent.slice(7)}`)
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
