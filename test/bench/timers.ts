import { keyText } from '@passover/schemas'
import { World } from '../support/dispatcher/dispatcher.js'
import { type OpenWork, openWork } from '../support/dispatcher/open-work.js'
import { startProcess, type TestProcess } from '../support/processes/processes.js'
import { until } from '../support/processes/until.js'

/**
 * `npm run bench -- --timers`: how late deadlines are kept with 100,000 open passes, how soon a timekeeper that was killed knows them all again,
 * and what memory it takes. Times of deadlines and ends are the server's. `--count`, `--spread` (s over which they are due), `--lead`
 * (s until the first of them; a slow machine needs more to open them all).
 */
const TIMEKEEPER = new URL('../support/roles/timekeeper.js', import.meta.url)
const MIB = 1024 * 1024

function given(name: string, otherwise: number): number {
  const at = process.argv.indexOf(`--${name}`)
  return (at > 0 && Number(process.argv[at + 1])) || otherwise
}

const count = given('count', 100_000)
const spread_ms = given('spread', 60) * 1_000
const lead_ms = given('lead', 60) * 1_000

interface Started extends AsyncDisposable {
  process: TestProcess
  knows_ms: number
  cpu_ms: number
}

/** `knows_ms`: from the process's beginning, node's own start included. */
async function timekeeper(world: World, open: number): Promise<Started> {
  const process = startProcess(TIMEKEEPER, { args: [JSON.stringify({ servers: world.nats.servers, open })] })
  const { ms, cpu_ms } = await process.heard('knows', 120_000)
  return { process, knows_ms: Number(ms), cpu_ms: Number(cpu_ms), [Symbol.asyncDispose]: () => process[Symbol.asyncDispose]() }
}

/** How late each was ended; throws where one has no end or two. */
async function lateness({ bus }: World, open: OpenWork[]): Promise<number[]> {
  const ended = new Map<string, number[]>()
  const filters = [bus.subjects.all('return')]
  await using reader = await bus.follow({ filters, headers_only: true }, ({ time }, fact) => {
    if (fact.type === 'step') ended.set(keyText(fact.key), [...(ended.get(keyText(fact.key)) ?? []), time])
  })
  await reader.caughtUp
  return open
    .map(({ key, deadline }) => {
      const times = ended.get(keyText(key)) ?? []
      if (times.length !== 1) throw new Error(`${key.id} ended ${times.length} times`)
      return (times[0] ?? 0) - deadline
    })
    .sort((a, b) => a - b)
}

const took = ({ knows_ms, cpu_ms }: Pick<Started, 'knows_ms' | 'cpu_ms'>) => `${knows_ms.toFixed(0)} ms (${cpu_ms.toFixed(0)} of CPU)`
const at = (sorted: number[], part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN

await using world = await World.start({ dispatchers: [] })
const { bus } = world
const first_due = bus.now() + lead_ms
const open = await openWork(world, { count, timeout_ms: (n) => Math.max(1_000, first_due + (n / count) * spread_ms - bus.now()) })
const rest = () => `${((first_due - bus.now()) / 1_000).toFixed(0)} s before the first is due`
console.log(`${count} passes are open, ${rest()}`)

const store = await bus.objects('snapshots')
let cold: Pick<Started, 'knows_ms' | 'cpu_ms'>
{
  await using first = await timekeeper(world, count)
  cold = first
  await until(async () => (await store.list()).length > 0, { what: 'a snapshot', deadline_ms: 60_000 })
}
const warm = await timekeeper(world, count)
const rss = warm.process.watchRss()
const idle = await warm.process.rss()
console.log(`a timekeeper was killed and has begun again, ${rest()}`)
const last_due = Math.max(...open.map(({ deadline }) => deadline))
const all_ended = async () => bus.now() > last_due && (await bus.bounds()).last >= 2 * count
await until(all_ended, { what: 'all have ended', deadline_ms: lead_ms + spread_ms + 120_000, every_ms: 500 })
const late = await lateness(world, open)
await warm[Symbol.asyncDispose]()

console.log(
  `late     p50 ${at(late, 0.5)} ms   p99 ${at(late, 0.99)} ms   max ${at(late, 1)} ms   earliest ${at(late, 0)} ms   (goal: at most 250, none early)`,
)
console.log(`restart  ${took(warm)} from a snapshot (goal: 2,000 ms), ${took(cold)} from the stream alone; node's own start included`)
console.log(`RSS      ${(idle / MIB).toFixed(0)} MiB with ${count} open, at most ${(rss.highest / MIB).toFixed(0)} while they end`)
