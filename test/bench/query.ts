import { randomBytes } from 'node:crypto'
import { PASSES_BUCKET, recordKey, storedRecord } from '@passover/audit'
import { decode, encode, type Table } from '@passover/bus'
import { makeId, makeInstance, type Question, queryAnswer, statsAnswer } from '@passover/schemas'
import { z } from 'zod'
import { AgentWorld } from '../support/dispatcher/agents.js'
import { auditFixture } from '../support/fixtures/audit.js'
import { until } from '../support/processes/until.js'

/**
 * `npm run bench -- --query`: how soon a page of a query is answered over a bucket full of records (goal: under 200 ms over a million).
 * `--passes N` (default 1,000,000) records are put into the bucket directly, each like one that a real pass left; then an audit starts, and is
 * asked as soon as its index is ready. `--asked N`: questions of each kind (default 200).
 */
const MIB = 1024 * 1024
const WINDOW = 4_000
const SPREAD_MS = 30 * 86_400_000
const SESSIONS = 20_000
const AGENTS = 50
const random = { bytes: (n: number) => randomBytes(n) }

function given(name: string, otherwise: number): number {
  const at = process.argv.indexOf(`--${name}`)
  return (at > 0 && Number(process.argv[at + 1])) || otherwise
}

type Json = Record<string, unknown>

/** The record of a pass that the product made, as it stands in the bucket. */
async function template(): Promise<Json> {
  await using world = await AgentWorld.start({ dispatchers: [{}], audit: { open: true } })
  const worker = await world.agent('audit')
  await worker.onPass(() => ({ status: 'completed', output: 'the login flow is fine' }))
  const alice = await world.agent('alice')
  await alice.passOver({ subagent: 'audit', reason: 'review the login flow', work_context: { objective: 'look at it' } })
  const table = await world.world.bus.table(PASSES_BUCKET, storedRecord)
  const raw: Json[] = []
  await until(
    async () => {
      await table.read(({ data }) => {
        const decoded = data && decode(data)
        if (decoded?.ok) raw.push(decoded.value as Json)
      })
      return raw.length > 0
    },
    { what: 'a record' },
  )
  return raw[0] as Json
}

async function fill(table: Table<unknown>, passes: number): Promise<void> {
  const model = await template()
  const frame = decode(model.frame as Uint8Array) as { ok: true; value: Json }
  const start = Date.now() - SPREAD_MS
  const instance = makeInstance(random)
  let waiting = 0
  let wake: () => void = () => undefined
  for (let number = 0; number < passes; number++) {
    const at = Math.floor(start + (SPREAD_MS / passes) * number)
    const session_id = `session-${number % SESSIONS}`
    const key = { originator: `agent-${number % AGENTS}`, subagent: `agent-${(number * 7) % AGENTS}`, id: makeId(instance, at, random) }
    const first = number * 3 + 1
    const times = { requested_at: at, admitted_at: at + 1, deadline: at + 30_000, ended_at: at + 5 + (number % 900) }
    const sequences = { requests: [first], work: first + 1, return: first + 2, fences: [], last: first + 2 }
    const record = { ...model, key, ...times, sequences, frame: encode({ ...frame.value, session_id, reason: `review part ${number}` }) }
    waiting++
    table.send(recordKey(key, at, session_id), encode(record), undefined, (outcome) => {
      if (outcome.kind !== 'stored') throw new Error(`not stored: ${outcome.kind}`)
      waiting--
      wake()
    })
    while (waiting >= WINDOW || (number === passes - 1 && waiting > 0)) await new Promise<void>((done) => (wake = done))
  }
}

const KINDS: Record<string, (number: number, passes: number) => Record<string, unknown>> = {
  newest: () => ({}),
  'one session': (number) => ({ session_id: `session-${(number * 97) % SESSIONS}` }),
  'one pair': (number) => ({ originator: `agent-${number % AGENTS}`, subagent: `agent-${(number * 7) % AGENTS}` }),
  'a pair that has none': (number) => ({ originator: `agent-${number % AGENTS}`, subagent: 'nobody' }),
  'an hour': (number) => ({ from: Date.now() - SPREAD_MS + number * 3_600_000, to: Date.now() - SPREAD_MS + (number + 1) * 3_600_000 }),
  'a status that is rare': () => ({ status: 'cancelled' }),
  'an error': () => ({ code: 'E011' }),
  'a decision': () => ({ decision: { verdict: 'deny' } }),
  'far back by cursor': (number, passes) => ({ cursor: `${Math.floor(Date.now() - (SPREAD_MS / 250) * (number + 1))}-${passes * 3}` }),
  'text (one page of time)': (number) => ({ text: `part ${number * 991}` }),
}

async function main(): Promise<void> {
  const passes = given('passes', 1_000_000)
  const asked = given('asked', 200)
  await using fixture = await auditFixture()
  const begun = performance.now()
  await fill(await fixture.bus.table(PASSES_BUCKET, z.unknown()), passes)
  say(`${passes} records put in ${seconds(begun)} s`)
  globalThis.gc?.()
  const before = process.memoryUsage.rss()
  const started = performance.now()
  await fixture.audit()
  say(`audit answers after ${seconds(started)} s`)
  const maria = await fixture.connect('maria')
  const ask = async (question: Record<string, unknown>) => {
    const answer = queryAnswer.parse(await maria.ask({ op: 'query', ...question } as Question, { timeout_ms: 30_000 }))
    if (!answer.ok) throw new Error(answer.error.message)
    return answer
  }
  await until(async () => (await ask({ limit: 1 })).complete, { what: 'the index', deadline_ms: 600_000, every_ms: 200 })
  say(`index ready after ${seconds(started)} s; memory of the process ${mib(before)} MiB before, ${mib(process.memoryUsage.rss())} MiB now`)
  for (const [kind, question] of Object.entries(KINDS)) {
    const times: number[] = []
    let entries = 0
    for (let number = 0; number < asked; number++) {
      const from = performance.now()
      entries += (await ask(question(number, passes))).entries.length
      times.push(performance.now() - from)
    }
    report(kind, times, entries)
  }
  const from = performance.now()
  statsAnswer.parse(await maria.ask({ op: 'stats' }, { timeout_ms: 30_000 }))
  say(`statistics of all: ${(performance.now() - from).toFixed(0)} ms`)
}

function report(kind: string, times: number[], entries: number): void {
  times.sort((a, b) => a - b)
  const at = (share: number) => (times[Math.min(times.length - 1, Math.floor(share * times.length))] ?? 0).toFixed(1).padStart(7)
  say(`${kind.padEnd(26)} p50 ${at(0.5)} ms  p99 ${at(0.99)} ms  ${(entries / times.length).toFixed(1)} entries a page`)
}

const say = (text: string) => process.stdout.write(`${text}\n`)
const seconds = (since: number) => ((performance.now() - since) / 1000).toFixed(1)
const mib = (bytes: number) => Math.round(bytes / MIB)

await main()
