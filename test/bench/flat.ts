import { FlatWorld } from './flat-world.js'
import { type Sample, slopeOf } from './slope.js'

/**
 * Whether memory and disk stay flat while passes come and go: `npm run bench -- --flat --passes N --rate N --id-window MS`. Every process runs with a
 * short id window, so that the audit deletes what is done with while the load goes on. Printed are, at each step, what every process holds,
 * what the stream holds and what lies on disk (by bucket: the records and the archive are meant to grow, up to a bound and a time); then how
 * the second half grew, by least squares, for each million passes.
 */
const argument = (name: string) => process.argv[process.argv.indexOf(name) + 1]
const given = (name: string, otherwise: number) => (process.argv.includes(name) && Number(argument(name))) || otherwise

const passes = given('--passes', 300_000)
const window_ms = given('--id-window', 2_000)
const steps = given('--steps', 20)
const rate = given('--rate', 800)

await using world = await FlatWorld.start(window_ms)
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
console.log('growth of the second half, for each million passes:')
for (const [name, all] of samples) console.log(`  ${name.padEnd(24)} ${show(slopeOf(all.slice(Math.floor(all.length / 2))) * 1_000_000)}`)

function show(value: number): string {
  return Math.abs(value) >= 100 ? String(Math.round(value)) : value.toFixed(1)
}
