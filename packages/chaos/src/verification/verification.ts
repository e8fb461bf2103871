import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { readArchive, wholeHistory } from '../check/archive.js'
import { checkAuthority } from '../check/authority.js'
import { checkDeletions, type DeletionRules, type Removal } from '../check/deletions.js'
import { checkEvidence } from '../check/evidence.js'
import { checkHandlers, type ProcessLocations, runLines } from '../check/handlers.js'
import { checkHistory, checkStarted, checkTotals, historyLines } from '../check/history.js'
import { judge } from '../check/judge.js'
import { readEvidence, readStream } from '../check/read-stream.js'
import type { CheckerOptions, StoredMessage } from '../check/types.js'
import { type Verdict, verdictOf } from '../check/verdict.js'
import type { ClusterAccess } from '../cluster/access.js'
import { pause } from '../wait-for.js'

const SETTLE_TIMEOUT_MS = 150_000
const POLL_INTERVAL_MS = 1_000
const HISTORY = '.history.jsonl'

export interface VerificationInput {
  servers: string[]
  access: ClusterAccess
  /** Folder of the logs of originators (`<name>.history.jsonl`) and workers (`begun`, `runs`). */
  histories: string
  options: CheckerOptions & DeletionRules
  /** Times at which workers were frozen or killed. `removals` returns the observed deletions, given a test for what the stream still holds. */
  workers: Omit<ProcessLocations, 'now'>
  removals: (isHere: (sequence: number) => boolean) => readonly Removal[]
  say: (progress: string) => void
}

export interface VerificationResult {
  verdict: Verdict
  /** Server times in milliseconds at which workers returned, in order. */
  returned: number[]
}

/** Reads all data repeatedly until every pass has ended and is recorded, or time is up. Returns the verdict on the last reading. */
export async function verifyRun(input: VerificationInput): Promise<VerificationResult> {
  input.say('reading the history')
  const nc = await connect({ servers: input.servers, name: 'checker', ...(await input.access.admin()) })
  const deadline = performance.now() + SETTLE_TIMEOUT_MS
  try {
    for (;;) {
      const reading = await read(nc, input)
      if (reading.quiet || performance.now() > deadline) {
        if (!reading.verdict.ok) await keep(reading.records, join(input.histories, 'stream.jsonl'))
        return { verdict: reading.verdict, returned: returnsIn(reading.records) }
      }
      await pause(POLL_INTERVAL_MS)
    }
  } finally {
    await nc.close()
  }
}

interface Reading {
  verdict: Verdict
  /** True if every pass has ended and is recorded. */
  quiet: boolean
  /** The whole history, including messages that only the archive still has. */
  records: StoredMessage[]
}

async function read(nc: NatsConnection, { histories, options, workers, removals }: VerificationInput): Promise<Reading> {
  // The stream is read first, so that messages deleted in between are found in the archive.
  const { records: stored, now } = await readStream(nc, 'PASSOVER')
  const evidence = await readEvidence(nc)
  const archived = readArchive(evidence)
  const records = wholeHistory(stored, archived)
  const judgement = judge(records, now, options)
  const kept = checkEvidence({ stored, archived, passes: evidence.passes, judgement, now }, options)
  const here = new Set(stored.map(({ sequence }) => sequence))
  const gone = removals((sequence) => here.has(sequence))
  const checked = [checkTotals(judgement, options), checkAuthority(records, judgement, options), kept]
  checked.push(checkDeletions(records, { removals: gone, judgement }, options))
  const [begun, runs] = await Promise.all(['begun', 'runs'].map((name) => readFile(join(histories, name), 'utf8').catch(() => '')))
  checked.push(checkStarted((begun ?? '').split('\n').slice(0, -1), judgement))
  checked.push(checkHandlers(runLines(runs ?? ''), { ...workers, now }, { judgement, options }))
  for (const name of (await readdir(histories)).filter((one) => one.endsWith(HISTORY))) {
    const lines = historyLines(await readFile(join(histories, name), 'utf8'))
    checked.push(checkHistory(name.slice(0, -HISTORY.length), lines, judgement))
  }
  const waiting = [...judgement.passes.values()].some((found) => found.begun === undefined)
  const quiet = judgement.totals.open === 0 && !waiting && kept.whole
  return { verdict: verdictOf(judgement.totals, checked), quiet, records }
}

function returnsIn(records: readonly StoredMessage[]): number[] {
  return records.filter(({ subject }) => subject.startsWith('return.') && !subject.endsWith('.passover')).map(({ time }) => time)
}

/** Writes the whole history as lines of JSON for analysis. */
async function keep(records: readonly StoredMessage[], path: string): Promise<void> {
  const lines = records.map(({ sequence, time, subject, headers, data }) =>
    JSON.stringify({ sequence, time, subject, headers: headers?.() ?? {}, data: Buffer.from(data).toString('base64') }),
  )
  await writeFile(path, `${lines.join('\n')}\n`)
}
