import { type Growth, growthOf, type Sample } from '../support/assertions/slope.js'
import { FlatWorld, type Kind, type Seen } from './pipelines/flat-world.js'

/**
 * Whether memory and disk stay flat while passes come and go: `npm run bench -- --flat --passes N --rate N --id-window MS`. Every process runs with a
 * short id window, so that the audit deletes what is done with while the load goes on. With `--feed` whole passes are written straight into
 * the stream, past dispatcher and worker, no faster than the audit reads and deletes: ten million then take about an hour. Printed are, at each of `--steps`,
 * what every process holds and works, what the stream holds and what lies on disk; then how the second half grew, by least squares, with a
 * verdict. The records and the archive are meant to grow, up to a bound and a time. Ends with 1 where something else did.
 */
const argument = (name: string) => process.argv[process.argv.indexOf(name) + 1]
const given = (name: string, otherwise: number) => (process.argv.includes(name) && Number(argument(name))) || otherwise

const passes = given('--passes', 300_000)
const id_window_ms = given('--id-window', 2_000)
const steps = given('--steps', 20)
const load = process.argv.includes('--feed') ? 'feed' : 'product'
const rate = given('--rate', load === 'feed' ? 3_000 : 800)

/** What comes and goes between two looks: some messages more are no growth where segments of 4,096 are deleted at a time. */
const NOISE: Record<Kind, number> = { mib: 16, messages: 4 * 4_096, kept: Number.POSITIVE_INFINITY, told: Number.POSITIVE_INFINITY }

await using world = await FlatWorld.start({ id_window_ms, load })
const samples = new Map<string, { kind: Kind; all: Sample[] }>()
const since = performance.now()
for (let step = 1; step <= steps; step += 1) {
  await world.run(Math.round(passes / steps), rate)
  const done = Math.round((passes / steps) * step)
  const seen = await world.look()
  for (const { name, kind, value } of seen) {
    const sampled = samples.get(name) ?? { kind, all: [] }
    sampled.all.push({ x: done, y: value })
    samples.set(name, sampled)
  }
  const reached = Math.round(done / ((performance.now() - since) / 1000))
  console.log([`${done} passes, ${reached}/s`, ...seen.map(text)].join(' · '))
}
console.log('growth of the second half:')
let grew = 0
for (const [name, { kind, all }] of samples) {
  if (kind === 'told') continue
  const growth = growthOf(all.slice(Math.floor(all.length / 2)), NOISE[kind])
  if (!growth.flat) grew += 1
  console.log(`  ${name.padEnd(26)} ${show(growth.slope * 1_000_000).padStart(8)} for each million passes   ${verdict(kind, growth)}`)
}
process.exitCode = grew > 0 ? 1 : 0

function verdict(kind: Kind, { flat, mean, grown }: Growth): string {
  if (kind === 'kept') return 'kept, up to its bound'
  return `${flat ? '✓' : '✗'} ${show(mean)} on average, ${show(grown)} more at the end`
}

function text({ name, value }: Seen): string {
  return `${name} ${show(value)}`
}

function show(value: number): string {
  return Math.abs(value) >= 100 ? String(Math.round(value)) : value.toFixed(1)
}
