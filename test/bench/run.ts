import { cpus } from 'node:os'
import { guideTargets, printTargets } from './measure/targets.js'
import { type Kind, type Load, median, Pipeline, type Round } from './pipelines/pipeline.js'

/**
 * `npm run bench`: the raw three hops and the product, each on a server of its own, all up all the time and taking turns. A machine's speed
 * drifts by a third within minutes, so that nothing is compared but the two halves of one round, seconds apart; printed is the
 * median of the rounds' ratios, and the lowest and the highest. The whole is done twice, the second time with the other pipeline
 * started first: which of two is younger makes a difference of its own. `--rounds N` is the number of rounds each time (default 3),
 * `--throughput` leaves out all but the first setting.
 *
 * Who reads everything yields, in both; so that it does not lag unseen, the rate is told besides that counts until it has read all.
 */

interface Setting extends Load {
  name: string
  /** Passes that nobody measures, before the first round: the product has more code to be compiled, and needs several thousand. */
  warm: Record<Kind, number>
  /** What it is judged by. */
  ratio: (product: Round, raw: Round) => number
  goal?: string
}

const rateRatio = (product: Round, raw: Round) => product.rate / raw.rate

const SETTINGS: Setting[] = [
  {
    name: '256 in flight, 1 originator',
    inflight: 256,
    passes: 10_000,
    originators: 1,
    warm: { raw: 10_000, product: 25_000 },
    ratio: rateRatio,
    goal: '≥ 0.5',
  },
  {
    name: 'alone',
    inflight: 1,
    passes: 600,
    originators: 1,
    warm: { raw: 300, product: 300 },
    ratio: (product, raw) => product.p50 / raw.p50,
    goal: 'p50 ≤ 2 × raw',
  },
  {
    name: '256 in flight, 20 originators',
    inflight: 256,
    passes: 8_000,
    originators: 20,
    warm: { raw: 8_000, product: 16_000 },
    ratio: rateRatio,
  },
]

interface Figures {
  raw: Round[]
  product: Round[]
  ratios: number[]
}

const found = new Map<Setting, Figures>(SETTINGS.map((setting) => [setting, { raw: [], product: [], ratios: [] }]))
const alone = { total_p99: 0, audit_p99: 0 }
const settings = process.argv.includes('--throughput') ? SETTINGS.slice(0, 1) : SETTINGS
const asked = process.argv.indexOf('--rounds')
const rounds = (asked > 0 && Number(process.argv[asked + 1])) || 3

/** Both pipelines, started in this order, through every setting. */
async function once([first, second]: readonly [Kind, Kind]): Promise<void> {
  await using older = await Pipeline.start(first)
  await using younger = await Pipeline.start(second)
  for (const setting of settings) {
    const figures = found.get(setting)
    for (const pipeline of [older, younger]) {
      await pipeline.originators(setting.originators)
      await pipeline.run({ ...setting, passes: setting.warm[pipeline.kind] })
    }
    for (let round = 0; round < rounds; round += 1) {
      const got: Partial<Record<Kind, Round>> = {}
      for (const pipeline of round % 2 === 0 ? [older, younger] : [younger, older]) got[pipeline.kind] = await pipeline.run(setting)
      if (!got.raw || !got.product) continue
      figures?.raw.push(got.raw)
      figures?.product.push(got.product)
      figures?.ratios.push(setting.ratio(got.product, got.raw))
    }
    if (setting.inflight === 1) alone.audit_p99 = (await (first === 'product' ? older : younger).audited(50)) || alone.audit_p99
  }
}

function print(kind: Kind, { name }: Setting, got: readonly Round[]): void {
  const of = (pick: (round: Round) => number) => median(got.map(pick))
  const ms = (value: number) => `${value.toFixed(2).padStart(7)} ms`
  console.log(
    `${kind.padEnd(8)} ${name.padEnd(30)} ${of(({ rate }) => rate).toFixed(0)}/s`.padEnd(48),
    `  p50 ${ms(of(({ p50 }) => p50))}   p99 ${ms(of(({ p99 }) => p99))}   ${of(({ settled_rate }) => settled_rate).toFixed(0)}/s until all is read`,
  )
  console.log(`         CPU µs a pass: ${byPart((part) => of(({ cpu }) => cpu[part] ?? 0), got)}`)
}

/** Of what is done until readers, too, have everything. */
function settledRatio({ raw, product }: Figures): number {
  return median(product.map((one, n) => one.settled_rate / (raw[n]?.settled_rate ?? Number.NaN)))
}

/** What one originator's pass costs all parts together; of several originators the CPU of one alone is known. */
function cpuSum(rounds: readonly Round[]): number {
  return median(rounds.map(({ cpu }) => Object.values(cpu).reduce((sum, value) => sum + value, 0)))
}

function byPart(value: (part: string) => number, [first]: readonly Round[]): string {
  return Object.keys(first?.cpu ?? {})
    .map((part) => `${part} ${value(part).toFixed(0)}`)
    .join('   ')
}

function report(): void {
  for (const setting of settings) {
    const figures = found.get(setting)
    if (!figures) continue
    const { raw, product, ratios } = figures
    print('raw', setting, raw)
    print('product', setting, product)
    const spread = `${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)} over ${ratios.length} rounds`
    const what = setting.inflight === 1 ? 'p50 × raw' : `of raw, ${settledRatio(figures).toFixed(2)} until all is read`
    if (setting.originators === 1)
      console.log(`CPU      ${setting.name}: raw ${cpuSum(raw).toFixed(0)} µs a pass, product ${cpuSum(product).toFixed(0)}`)
    console.log(
      `ratio    ${setting.name}: ${median(ratios).toFixed(2)} ${what} (${spread})${setting.goal ? `; goal ${setting.goal}` : ''}\n`,
    )
    if (setting.inflight === 1) alone.total_p99 = median(product.map(({ p99 }) => p99))
  }
}

console.log(`${cpus().length} cores, Node ${process.version}, twice ${rounds} rounds; medians\n`)
await once(['raw', 'product'])
await once(['product', 'raw'])
report()
const last = [...found.values()].at(-1)?.product.at(-1)
if (last)
  console.log(
    `RSS MiB: ${Object.entries(last.rss)
      .map(([part, mib]) => `${part} ${mib.toFixed(0)}`)
      .join('   ')}`,
  )
if (settings === SETTINGS) printTargets(guideTargets(alone))
