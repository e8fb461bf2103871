import { FlatWorld } from './flat-world.js'
import { type Growth, growthOf, type Sample } from './slope.js'

/**
 * Whether memory and disk stay flat while passes come and go: `npm run bench -- --flat --passes N --rate N --id-window MS`. Every process runs with a
 * short id window, so that the audit deletes what is done with while the load goes on. With `--feed` whole passes are written straight into
 * the stream, past dispatcher and worker: ten million then take an hour. Printed are, at each of `--steps`, what every process holds, what
 * the stream holds and what lies on disk; then how the second half grew, by least squares, with a verdict. The records and the archive are
 * meant to grow, up to a bound and a time. Ends with 1 where something else did.
 */
const argument = (name: string) => process.argv[process.argv.indexOf(name) + 1]
const given = (name: string, otherwise: number) => (process.argv.includes(name) && Number(argument(name))) || otherwise

const passes = given('--passes', 300_000)
const id_window_ms = given('--id-window', 2_000)
const steps = given('--steps', 20)
const load = process.argv.includes('--feed') ? 'feed' : 'product'
const rate = given('--rate', load === 'feed' ? 3_000 : 800)
/** What holds records, or is kept for retention_days: not judged. */
const MEANT_TO_GROW = /^(records|objects) /

await using world = await FlatWorld.start({ id_window_ms, load })
const samples = new Map<string, Sample[]>()
const since = performance.now()
for (let step = 1; step <= steps; step += 1) {
  await world.run(Math.round(passes / steps), rate)
  const done = Math.round((passes / steps) * step)
  const seen = await world.look()
  for (const [name, value] of Object.entries(seen)) samples.set(name, [...(samples.get(name) ?? []), { x: done, y: value }])
  const reached = Math.round(done / ((performance.now() - since) / 1000))
  console.log([`${done} passes, ${reached}/s`, ...Object.entries(seen).map(([name, value]) => `${name} ${show(value)}`)].join(' · '))
}
console.log('growth of the second half:')
let grew = 0
for (const [name, all] of samples) {
  const growth = growthOf(all.slice(Math.floor(all.length / 2)))
  if (!growth.flat && !MEANT_TO_GROW.test(name)) grew += 1
  console.log(`  ${name.padEnd(26)} ${show(growth.slope * 1_000_000).padStart(8)} for each million passes   ${verdict(name, growth)}`)
}
process.exitCode = grew > 0 ? 1 : 0

function verdict(name: string, { flat, mean, grown }: Growth): string {
  if (MEANT_TO_GROW.test(name)) return 'kept, up to its bound'
  return `${flat ? '✓' : '✗'} ${show(mean)} on average, ${show(grown)} more at the end`
}

function show(value: number): string {
  return Math.abs(value) >= 100 ? String(Math.round(value)) : value.toFixed(1)
}
