import { DeliverPolicy, jetstream } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { FlatWorld } from './pipelines/flat-world.js'
import { Pipeline } from './pipelines/pipeline.js'

/**
 * `npm run bench -- --lag`: how far the audit is behind at a steady rate: from a return's being stored to its record's being stored in KV,
 * by the server's own times of the two messages, of every pass; and from hearing a return to the audit's telling of it. `--rate` (passes a
 * second, 2,000), `--seconds` (30), `--warm` (passes before, 20,000).
 *
 * In earnest agents run on machines of their own, and the audit, of niceness 5, yields to nobody but the dispatcher and the server. Here all of them share
 * the processors, and what makes the load would come first: so agents have a niceness as well, beyond the audit's. `--feed`: agents and dispatcher are
 * elsewhere, and one process of that niceness writes whole journals past them, as many a second: what the audit alone is behind beside a server.
 */
const KEPT = 'KV_passes'
const STREAM = 'PASSOVER'
/** Each answer reads its pass in the stream: many of them would be what keeps the server busy. */
const TOLD_EVERY = 1_000
const NS_PER_MS = 1_000_000n
const AGENTS_NICENESS = 10
/** Nothing leaves the stream while it is measured: as in an installation, whose passes stay for an hour at least. */
const ID_WINDOW_MS = 3_600_000

function given(name: string, otherwise: number): number {
  const at = process.argv.indexOf(`--${name}`)
  return (at > 0 && Number(process.argv[at + 1])) || otherwise
}

/** Server's time of each message under a subject, by the token that is the pass's id. */
async function times(nc: NatsConnection, of: { stream: string; filter: string; id: number }): Promise<Map<string, bigint>> {
  const found = new Map<string, bigint>()
  const options = { deliver_policy: DeliverPolicy.All, headers_only: true, filter_subjects: of.filter }
  const consumer = await jetstream(nc).consumers.get(of.stream, options)
  let left = (await consumer.info()).num_pending
  if (left === 0) return found
  for await (const message of await consumer.consume({ max_messages: 2_000 })) {
    found.set(message.subject.split('.')[of.id] ?? '', message.timestampNanos)
    left -= 1
    if (left <= 0) break
  }
  return found
}

const rate = given('rate', 2_000)
const passes = rate * given('seconds', 30)
const warm = given('warm', 20_000)
const line = (what: string, p50: number, p99: number) =>
  console.log(`${what.padEnd(44)} p50 ${p50.toFixed(1)} ms   p99 ${p99.toFixed(1)} ms`)
const wanted = (seconds: number) => console.log(`${passes} passes, ${(passes / seconds).toFixed(0)}/s of ${rate}/s wanted`)

await (process.argv.includes('--feed') ? fed() : worked())

/** By agents through the whole product. */
async function worked(): Promise<void> {
  await using pipeline = await Pipeline.start('product', { agents_niceness: AGENTS_NICENESS })
  await pipeline.run({ passes: warm, inflight: 64, originators: 1 })
  const lags = await lagsOf(pipeline.url, async () => {
    const got = await pipeline.paced({ passes, rate, told_every: TOLD_EVERY })
    wanted(got.passes.seconds)
    line('pass, from its time to begin to its output', got.passes.p50, got.passes.p99)
    line(`return heard → audit tells (${got.told.passes} passes)`, got.told.p50, got.told.p99)
  })
  tell(lags)
}

async function fed(): Promise<void> {
  await using world = await FlatWorld.start({ id_window_ms: ID_WINDOW_MS, load: 'feed', niceness: AGENTS_NICENESS })
  await world.run(warm, rate)
  const lags = await lagsOf(world.url, async () => {
    const since = performance.now()
    await world.run(passes, rate)
    wanted((performance.now() - since) / 1_000)
    await world.settled()
  })
  tell(lags)
}

/** How far behind each of the passes of a load was recorded, ms, in order. */
async function lagsOf(servers: string, load: () => Promise<void>): Promise<number[]> {
  const nc = await connect({ servers })
  const of = { stream: STREAM, filter: 'return.>', id: 3 }
  const before = await times(nc, of)
  await load()
  const returns = await times(nc, of)
  const records = await times(nc, { stream: KEPT, filter: '$KV.passes.>', id: 6 })
  await nc.close()
  const lags: number[] = []
  for (const [id, returned] of returns) {
    if (before.has(id)) continue
    const recorded = records.get(id)
    if (recorded === undefined) throw new Error(`no record of ${id}`)
    lags.push(Number(recorded - returned) / Number(NS_PER_MS))
  }
  if (lags.length !== passes) throw new Error(`${lags.length} of ${passes} passes have a return and a record`)
  return lags.sort((a, b) => a - b)
}

function tell(lags: readonly number[]): void {
  const at = (part: number) => lags[Math.min(lags.length - 1, Math.floor(lags.length * part))] ?? Number.NaN
  line('return stored → record stored', at(0.5), at(0.99))
  console.log(`longest until its record: ${at(1).toFixed(1)} ms; goal: p99 < 50 ms  ${at(0.99) < 50 ? '✓' : '✗'}`)
}
