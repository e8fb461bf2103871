import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { startServer } from '@passover/bus/server'
import { type Measured, type Role, startRole, type Usage } from './harness.js'
import { guideTargets, printTargets } from './targets.js'

/**
 * `npm run bench`: the raw three hops and the product, in turn, on one fresh server each; prints figures and ratios.
 * Machines are noisy: only ratios of one run mean anything. `--rounds N` repeats and takes the median ratio.
 */

interface Setting {
  name: string
  inflight: number
  passes: number
  originators: number
}

const SETTINGS: Setting[] = [
  { name: 'alone', inflight: 1, passes: 1500, originators: 1 },
  { name: '256 in flight, 1 originator', inflight: 256, passes: 20_000, originators: 1 },
  { name: '256 in flight, 20 originators', inflight: 256, passes: 20_000, originators: 20 },
]

interface Row {
  setting: string
  rate: number
  p50: number
  p99: number
  /** By part: CPU µs a pass, and resident MiB. `nats` is the server. */
  cpu: Record<string, number>
  rss: Record<string, number>
  /** Product only: return heard to record readable. */
  audit_p99?: number
}

async function measure(script: './raw.js' | './product.js'): Promise<Row[]> {
  const dir = mkdtempSync(join(tmpdir(), 'passover-bench-'))
  const server = await startServer({ dir })
  const role = (name: string, n = 0) => startRole(script, { role: name, servers: server.url, instance: String(n).padStart(7, 'a') })
  const roles: Role[] = []
  try {
    for (const name of ['dispatcher', 'audit', 'worker']) roles.push(await role(name))
    const originators = await Promise.all(Array.from({ length: 20 }, (_, n) => role('originator', n)))
    roles.push(...originators)
    await load(originators.slice(0, 1), { name: 'warm', inflight: 64, passes: 3_000, originators: 1 })
    const rows: Row[] = []
    for (const setting of SETTINGS) {
      const before = { parts: await usage(roles), nats: cpuOf(server.pid) }
      const got = await load(originators.slice(0, setting.originators), setting)
      const after = await usage(roles)
      const spent = after.map((one, n) => [PARTS[n], (one.cpu_us - (before.parts[n]?.cpu_us ?? 0)) / setting.passes])
      const cpu = Object.fromEntries([...spent, ['nats', (cpuOf(server.pid) - before.nats) / setting.passes]])
      rows.push({ setting: setting.name, ...got, cpu, rss: Object.fromEntries(after.map((one, n) => [PARTS[n], one.rss / 1048576])) })
      if (script === './product.js' && rows.length === 1)
        Object.assign(rows[0] ?? {}, { audit_p99: await originators[0]?.ask<number>({ audit: 50 }) })
    }
    return rows
  } finally {
    await Promise.all(roles.map((one) => one[Symbol.asyncDispose]()))
    await server.stop()
    rmSync(dir, { recursive: true, force: true })
  }
}

async function load(originators: Role[], setting: Setting): Promise<{ rate: number; p50: number; p99: number }> {
  const share = (total: number) => Math.max(1, Math.floor(total / originators.length))
  const started = performance.now()
  const command = { passes: share(setting.passes), inflight: share(setting.inflight) }
  const got = await Promise.all(originators.map((one) => one.ask<Measured>(command)))
  const seconds = (performance.now() - started) / 1000
  const passes = got.reduce((sum, one) => sum + one.passes, 0)
  const middle = (pick: (one: Measured) => number) => median(got.map(pick))
  return { rate: passes / seconds, p50: middle((one) => one.p50), p99: middle((one) => one.p99) }
}

const PARTS = ['dispatcher', 'audit', 'worker', 'originator']

/** Of the first originator and the other parts. */
async function usage(roles: Role[]): Promise<Usage[]> {
  return Promise.all(roles.slice(0, PARTS.length).map((one) => one.usage()))
}

/** CPU time of a process that is not ours, in µs (Linux; 0 elsewhere). */
function cpuOf(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
    return (Number(fields[11]) + Number(fields[12])) * 10_000
  } catch {
    return 0
  }
}

function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? 0
}

function print(name: string, rows: Row[]): void {
  for (const { setting, rate, p50, p99, cpu } of rows) {
    console.log(
      `${name.padEnd(8)} ${setting.padEnd(32)} ${rate.toFixed(0).padStart(7)}/s   p50 ${p50.toFixed(2).padStart(7)} ms   p99 ${p99.toFixed(2).padStart(7)} ms`,
    )
    console.log(`         CPU µs a pass: ${figures(cpu)}`)
  }
}

function figures(of: Record<string, number>): string {
  return Object.entries(of)
    .map(([who, value]) => `${who} ${value.toFixed(0)}`)
    .join('   ')
}

const rounds = Number(process.argv[process.argv.indexOf('--rounds') + 1]) || 1
const ratios = new Map<string, number[]>()
const alone = { total_p99: 0, audit_p99: 0 }
console.log(`${cpus().length} cores, Node ${process.version}, ${rounds} round${rounds > 1 ? 's' : ''}`)
for (let round = 0; round < rounds; round += 1) {
  const raw = await measure('./raw.js')
  const product = await measure('./product.js')
  print('raw', raw)
  print('product', product)
  for (const [n, setting] of SETTINGS.entries()) {
    const mine = product[n]
    const bare = raw[n]
    if (!mine || !bare) continue
    const ratio = setting.inflight === 1 ? mine.p50 / bare.p50 : mine.rate / bare.rate
    ratios.set(setting.name, [...(ratios.get(setting.name) ?? []), ratio])
  }
  alone.total_p99 = product[0]?.p99 ?? 0
  alone.audit_p99 = product[0]?.audit_p99 ?? 0
  const last = product.at(-1)
  if (last) console.log(`RSS MiB: ${figures(last.rss)}`)
}
for (const [name, values] of ratios)
  console.log(
    name === 'alone'
      ? `ratio    ${name}: p50 ${median(values).toFixed(2)} × raw (goal ≤ 2)`
      : `ratio    ${name}: ${median(values).toFixed(2)} of raw (goal ≥ 0.5)`,
  )
printTargets(guideTargets(alone))
