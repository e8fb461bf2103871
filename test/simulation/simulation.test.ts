import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { MODEL_CONFIGS, MODEL_MUTANTS } from './mutants/model-mutants.js'
import { MUTANTS, VARIANTS } from './mutants/mutants.js'
import { mutated } from './mutants/mutate-hooks.js'
import { CONFIGS, planOf } from './plans/configs.js'
import { makePlan, type Plan } from './plans/plan.js'
import { freshSeed, runSeeds } from './pool.js'
import { shrink } from './shrink.js'
import { type Result, Simulation } from './simulation.js'

const SEEDS = 100
/** `PASSOVER_SEED` repeats a run. A seed that fails is kept: in FOUND. */
const FROM = Number(process.env.PASSOVER_SEED ?? freshSeed())
/**
 * Seeds that reported a violation when ten thousand ran, a fault of the product or of the simulation (docs/quality/simulation.md#what-it-found).
 * Their plans stay the same. A change elsewhere shifts the random draws, so the unit tests of each correction fail without it.
 */
const FOUND = [
  611, 1724, 2729, 3150, 3301, 3412, 4731, 5815, 6420, 6504, 7107, 9063, 9793, 9949, 1011168, 1796003310, 96011244382, 96011249334,
  96011252480, 960535842, 960538067, 960539102, 960546705, 960546922, 960564284, 960565958, 960579247, 960581851, 796078147, 96093879,
  96106241, 96131783, 96132040, 76451832, 96099944, 96099958, 96100274, 96100355, 96100996, 96101263,
]

interface How {
  mutant?: string
  config?: string | undefined
  processes?: number
}

async function results(from: number, count: number, how: How = {}): Promise<Result[]> {
  const found: Result[] = []
  const onResult = (result: Result) => {
    found.push(result)
    return result.violations.length === 0
  }
  await runSeeds({ from, count, processes: 2, ...how, onResult })
  return found
}

describe('the simulation', () => {
  test(`${SEEDS} seeded schedules break no promise, and are not idle (PASSOVER_SEED=${FROM})`, async () => {
    const found = await results(FROM, SEEDS)
    expect(found.flatMap(({ seed, violations }) => violations.map(({ text }) => `seed ${seed}: ${text}`))).toEqual([])
    const sum = (what: string) => found.reduce((all, { tally }) => all + (tally[what] ?? 0), 0)
    for (const what of ['deaths', 'stop', 'cut', 'restart', 'remove', 'lost', 'unanswered', 'held_up', 'delayed', 'deleted'])
      expect(sum(what), what).toBeGreaterThan(10)
    expect(found.reduce((all, { passes }) => all + passes, 0)).toBeGreaterThan(SEEDS * 3)
  }, 600_000)

  test('each configuration of the model is one here', () => {
    expect(MODEL_CONFIGS.filter((name) => !CONFIGS.includes(name))).toEqual([])
  })

  test.each(CONFIGS)(
    'the configuration %s holds',
    async (config) => {
      for (const seed of [1, 2]) {
        const { violations } = await new Simulation(planOf(seed, config)).run()
        expect(violations.map(({ text }) => text)).toEqual([])
      }
    },
    300_000,
  )

  test('seeds that broke a promise once break none', async () => {
    for (const seed of FOUND) {
      const { violations } = await new Simulation(makePlan(seed)).run()
      expect(violations.map(({ text }) => `seed ${seed}: ${text}`)).toEqual([])
    }
  }, 300_000)

  test('the same seed has the same history, whatever ran before it and in whichever process', async () => {
    const [before] = await results(12, 1)
    for (const seed of [11, 12]) {
      const result = await new Simulation(makePlan(seed)).run()
      if (seed === 12) expect({ digest: result.digest, steps: result.steps }).toEqual({ digest: before?.digest, steps: before?.steps })
    }
  }, 300_000)

  test('a failing plan is shrunk to what it needs', async () => {
    const violation = { promise: 'P1' as const, kind: 'made_up', text: '', at: 0 }
    const needs = (plan: Plan) => plan.faults.some(({ kind }) => kind === 'restart') && plan.passes.some(({ hold }) => hold)
    const run = async (plan: Plan) => ({ violations: needs(plan) ? [violation] : [] })
    const plan = Array.from({ length: 200 }, (_, seed) => makePlan(seed)).find((one) => needs(one) && one.faults.length > 3)
    const small = await shrink(plan as Plan, violation, { run })
    expect(small.plan.faults.map(({ kind }) => kind)).toEqual(['restart'])
    expect(small.plan.passes).toHaveLength(1)
    expect(small.plan.passes[0]).toMatchObject({ children: [], ms: 0, does: 'returns', again: [] })
  })
})

describe('mutants', () => {
  test('each of the model is one here', () => {
    expect(MODEL_MUTANTS.filter((name) => !(name in MUTANTS))).toEqual([])
  })

  test("a mutant's seed is replayed exactly, and shrunk to what it needs, which fails too", async () => {
    const run = fileURLToPath(new URL('../dist/simulation/run.js', import.meta.url))
    const simulate = (...args: string[]) =>
      spawnSync(process.execPath, [run, '--mutant', 'any_digest', ...args], { encoding: 'utf8', maxBuffer: 64 << 20 })
    const { stdout, status } = simulate('--seed', '1')
    expect(status).toBe(1)
    const [found] = await results(1, 1, { mutant: 'any_digest', config: 'hold' })
    const again: Result = JSON.parse(stdout.slice(0, stdout.indexOf('\nshrunk in')))
    expect(again).toEqual(found)
    expect(again.violations.length).toBeGreaterThan(0)
    const [, text = '', told = ''] = /shrunk in \d+ tries to\n(\{.*\n\})\n(.*)/s.exec(stdout) ?? []
    expect(told).toContain('P5 unapproved')
    const { passes, dispatchers, workers } = JSON.parse(text) as Plan
    expect({ dispatchers, workers }).toEqual({ dispatchers: 1, workers: 1 })
    expect(passes).toHaveLength(1)
    expect(passes[0]).toMatchObject({ children: [], ms: 0, hold: { verdict: 'approve', digest: 'wrong' } })
    const file = join(mkdtempSync(join(tmpdir(), 'passover-')), 'plan.json')
    writeFileSync(file, text)
    const replayed = simulate('--plan', file)
    rmSync(dirname(file), { recursive: true })
    expect(replayed.status).toBe(1)
    expect(replayed.stdout).toContain('"unapproved"')
  }, 300_000)

  test('what does not happen is missed when it is due, not at the end', async () => {
    const found = (await results(1, 24, { mutant: 'no_expiry', config: 'hold' })).at(-1)
    const [missed] = found?.violations ?? []
    expect(missed?.kind).toBe('overdue')
    expect(missed?.at).toBeLessThan(planOf(found?.seed ?? 1, 'hold').until - 1_000)
  }, 300_000)

  test.each(Object.entries(VARIANTS))(
    '%s does the same in another way, and holds',
    async (mutant, { config }) => {
      const found = await results(1, 4, { mutant, config })
      expect(found.flatMap(({ violations }) => violations.map(({ text }) => text))).toEqual([])
      expect(found).toHaveLength(4)
    },
    300_000,
  )

  test.each(Object.entries({ ...MUTANTS, ...VARIANTS }))('%s can be put in', (_, mutant) => {
    const path = fileURLToPath(new URL(`../../${mutant.file}`, import.meta.url))
    expect(mutated(readFileSync(path, 'utf8'), mutant)).not.toBe(readFileSync(path, 'utf8'))
  })

  // Most are caught by the first seed that is tried; a change elsewhere that turns the dice may need some more.
  test.concurrent.each(Object.entries(MUTANTS))(
    '%s is caught',
    async (mutant, { config, seed = 1 }) => {
      const found = await results(seed, 24, { mutant, config, processes: 1 })
      expect(found.at(-1)?.violations.length, `${found.length} seeds from ${seed}`).toBeGreaterThan(0)
    },
    300_000,
  )
})
