import { BUILDER } from '@passover/chaos'
import { Field } from '../chaos/field.js'
import { until } from '../support/processes/until.js'

/**
 * Ten times the load that one worker can serve, for a while: what every process holds of it. `npm run bench -- --overload`.
 * First it is measured how much is served, then ten times as many requests are published as are served in PASSOVER_SECONDS.
 */
const SECONDS = Number(process.env.PASSOVER_SECONDS ?? 20)
const TIMES = 10
const FIRST = 2_000
const PATIENT_MS = 900_000
/** Most of what is published can never be served: it ends at its timeout. */
const TIMEOUT_MS = SECONDS * 1_000

await using field = await Field.start({ dispatchers: 2, workers: 1, agents: [BUILDER], concurrency: 16 })
const before = field.peaks()
const since = performance.now()
await burst(FIRST, PATIENT_MS)
await idle()
const served = FIRST / ((performance.now() - since) / 1_000)
const passes = Math.round(served * SECONDS * TIMES)
console.log(`served ${Math.round(served)}/s; now ${passes} at once, ${TIMES} times what is served in ${SECONDS} s`)
const after = field.peaks()
await burst(passes, TIMEOUT_MS)
await idle()
console.log('peak resident memory, MiB: at the start, while it kept up, at ten times that')
for (const [name, peak] of Object.entries(field.peaks()))
  console.log(`  ${name.padEnd(16)} ${before[name] ?? '-'}  ${after[name] ?? '-'}  ${peak}`)
console.log(`  server           ${Math.round((await serverMemory()) / (1 << 20))} (now)`)
if (field.crashes.length > 0) console.log(`crashed: ${field.crashes.join('; ')}`)

async function burst(count: number, timeout_ms: number): Promise<void> {
  const publisher = field.player(`publisher ${count}`, 'burst', { agent: 'alice', to: BUILDER, passes: count, timeout_ms, padding: 1_000 })
  const { ms } = await publisher.process.heard('published', PATIENT_MS)
  console.log(`  (${count} requests stored in ${ms} ms)`)
}

/** Every request has its work or its refusal, and every work its end. */
async function idle(): Promise<void> {
  const quiet = async () => {
    const loads = await field.bus.workload(BUILDER)
    const { last } = await field.bus.bounds()
    await new Promise((again) => setTimeout(again, 1_000))
    return loads.every(({ queued, running }) => queued + running === 0) && (await field.bus.bounds()).last === last
  }
  await until(quiet, { what: 'nothing is left', deadline_ms: PATIENT_MS })
}

async function serverMemory(): Promise<number> {
  const answer = await fetch(new URL('/varz', field.nats.node.monitor))
  return ((await answer.json()) as { mem: number }).mem
}
