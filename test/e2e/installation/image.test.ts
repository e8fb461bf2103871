import { spawnSync } from 'node:child_process'
import { connectHttp, type HttpClient } from '@passover/sdk/http'
import { describe, expect, it } from 'vitest'
import { until } from '../../support/processes/until.js'
import { dockerMissing } from '../../support/servers/docker.js'
import { type NatsFixture, natsFixture } from '../../support/servers/nats.js'
import { freePorts } from '../../support/servers/ports.js'
import { productImage } from '../../support/servers/product-image.js'

/** Passes that are asked for before each of the three kills, and after the last. */
const SHARE = 15
const ECHO = ['node', '-e', 'process.stdin.pipe(process.stdout)']
const missing = dockerMissing()

/** Containers of the product's image on the host's network, all gone at its end. */
function containersOf(image: string, env: Record<string, string>) {
  const made: string[] = []
  const volume = docker('volume', 'create').stdout.trim()
  const variables = Object.entries(env).flatMap(([name, value]) => ['--env', `${name}=${value}`])
  const run = (how: string, command: string[]) => {
    const [service] = command
    // One installation's services share nothing; its gateway and who makes tokens for it share a folder.
    const shared = service === 'gateway' ? ['--volume', `${volume}:/data`] : []
    return docker('run', how, '--network', 'host', ...shared, ...variables, image, ...command)
  }
  const logs = (id: string) => {
    const { stdout, stderr } = docker('logs', id)
    return stdout + stderr
  }
  return {
    /** Runs one command to its end. */
    command: (...command: string[]) => run('--rm', command),
    /** Starts a process, and waits until it has printed `ready`. */
    async start(ready: RegExp, ...command: string[]): Promise<string> {
      const { stdout, stderr } = run('--detach', command)
      const id = stdout.trim()
      if (id === '') throw new Error(stderr)
      made.push(id)
      const runs = () => docker('inspect', '--format', '{{.State.Running}}', id).stdout.trim() === 'true'
      await until(() => ready.test(logs(id)) || !runs(), { what: `${command.join(' ')} is ready`, deadline_ms: 60_000 })
      expect(logs(id)).toMatch(ready)
      return id
    },
    kill: (id: string) => docker('kill', '--signal', 'KILL', id),
    [Symbol.dispose]() {
      docker('rm', '--force', ...made)
      docker('volume', 'rm', volume)
    },
  }
}

function docker(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync('docker', args, { encoding: 'utf8', timeout: 120_000 })
}

/** No one contains another. */
const objectiveOf = (index: number) => `pass ${index} of ${4 * SHARE}`

/** Asks over HTTP, again where nobody answered: the key makes it the same pass. */
function ask(client: HttpClient, index: number): Promise<string> {
  const pass = { subagent: 'echo', reason: 'test', work_context: { objective: objectiveOf(index) }, timeout_ms: 120_000 }
  return until(
    async () => {
      const { output } = await client.passes.create(pass, { key: `pass-${index}`, waitSeconds: 60 })
      return typeof output?.output === 'string' ? output.output : undefined
    },
    { what: `pass ${index} is answered`, deadline_ms: 180_000 },
  )
}

/** Of every stream and bucket. */
async function replicasOf(nats: NatsFixture): Promise<number[]> {
  const answer = await fetch(new URL('/jsz?streams=1&config=1', nats.node.monitor))
  const { account_details } = (await answer.json()) as { account_details: { stream_detail?: { config: { num_replicas: number } }[] }[] }
  return account_details.flatMap(({ stream_detail = [] }) => stream_detail.map(({ config }) => config.num_replicas))
}

describe.skipIf(missing)(`the product's own image${missing ? ` (left out: ${missing})` : ''}`, () => {
  it('answers every pass on three servers while one of each kind of container is killed', async () => {
    const image = await productImage()
    await using nats = await natsFixture({ maker: 'container', nodes: 3 })
    const [port = 0] = await freePorts(1)
    using containers = containersOf(image, {
      NATS_URL: nats.servers.join(','),
      PASSOVER_REPLICAS: '3',
      PASSOVER_AS: 'ann',
      PASSOVER_GATEWAY_TOKENS: '/data/tokens.json',
    })
    const services = await containers.start(/is up/, 'up')
    await containers.start(/is up/, 'up')
    const { token } = JSON.parse(containers.command('gateway', 'token', 'add', '--agent', 'alice', '--json').stdout) as { token: string }
    await containers.start(/http:/, 'gateway', '--port', String(port))
    const worker = await containers.start(/Ctrl-C/, 'work', 'echo', '--concurrency', '4', '--', ...ECHO)
    await containers.start(/Ctrl-C/, 'work', 'echo', '--concurrency', '4', '--', ...ECHO)

    const client = connectHttp({ url: `http://127.0.0.1:${port}`, token })
    const answers: Promise<string>[] = []
    const askMore = () => {
      for (let i = 0; i < SHARE; i++) answers.push(ask(client, answers.length))
    }
    for (const kill of [() => containers.kill(worker), () => containers.kill(services), () => nats.node.kill()]) {
      askMore()
      await kill()
    }
    askMore()
    expect(await Promise.all(answers)).toEqual(answers.map((_, i) => expect.stringContaining(objectiveOf(i))))

    await nats.node.restart()
    const replicas = await replicasOf(nats)
    expect(replicas.length).toBeGreaterThan(10)
    expect(new Set(replicas)).toEqual(new Set([3]))
    const verified = containers.command('verify', '--json')
    expect(verified, verified.stdout + verified.stderr).toMatchObject({ status: 0 })
    expect(JSON.parse(verified.stdout)).toMatchObject({ ok: true, counts: { passes: 4 * SHARE, ended: 4 * SHARE } })
    expect(containers.command('chaos')).toMatchObject({ status: 2, stderr: expect.stringContaining('not part of the container image') })
  })
})
