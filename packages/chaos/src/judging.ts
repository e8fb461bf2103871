import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { checkAuthority } from './check/authority.js'
import { checkEvidence } from './check/evidence.js'
import type { CheckerOptions, StoredMessage } from './check/found.js'
import { judge } from './check/judge.js'
import { readEvidence } from './check/read-evidence.js'
import { readStream } from './check/stream.js'
import { checkBegun, checkJudged, checkTold, historyLines } from './check/tell.js'
import { type Verdict, verdictOf } from './check/verdict.js'
import { pause } from './wait.js'

const QUIET_MS = 150_000
const AGAIN_MS = 1_000
const HISTORY = '.history.jsonl'

export interface Judging {
  servers: string[]
  /** What originators (`<name>.history.jsonl`) and workers (`begun`) wrote down. */
  histories: string
  options: CheckerOptions
  say: (progress: string) => void
}

export interface Judged {
  verdict: Verdict
  /** When workers returned, server ms, in order. */
  returned: number[]
}

/** Reads everything, again and again until every pass has ended and is recorded or time is up; the verdict on the last reading. */
export async function judged({ servers, histories, options, say }: Judging): Promise<Judged> {
  say('reading the history')
  const nc = await connect({ servers, name: 'checker' })
  const deadline = performance.now() + QUIET_MS
  try {
    for (;;) {
      const reading = await read(nc, histories, options)
      if (reading.quiet || performance.now() > deadline) {
        if (!reading.verdict.ok) await keep(reading.records, join(histories, 'stream.jsonl'))
        return { verdict: reading.verdict, returned: returnsIn(reading.records) }
      }
      await pause(AGAIN_MS)
    }
  } finally {
    await nc.close()
  }
}

interface Reading {
  verdict: Verdict
  /** Every pass has ended and is recorded. */
  quiet: boolean
  records: StoredMessage[]
}

async function read(nc: NatsConnection, histories: string, options: CheckerOptions): Promise<Reading> {
  const { records, now } = await readStream(nc, 'PASSOVER')
  const judgement = judge(records, now, options)
  const evidence = checkEvidence(records, judgement, await readEvidence(nc))
  const checked = [checkJudged(judgement, options), checkAuthority(records, judgement, options), evidence]
  const begun = await readFile(join(histories, 'begun'), 'utf8').catch(() => '')
  checked.push(checkBegun(begun.split('\n').slice(0, -1), judgement))
  for (const name of (await readdir(histories)).filter((one) => one.endsWith(HISTORY))) {
    const lines = historyLines(await readFile(join(histories, name), 'utf8'))
    checked.push(checkTold(name.slice(0, -HISTORY.length), lines, judgement))
  }
  const waiting = [...judgement.passes.values()].some((found) => found.begun === undefined)
  const quiet = judgement.totals.open === 0 && !waiting && evidence.violations.length === 0
  return { verdict: verdictOf(judgement.totals, checked), quiet, records }
}

function returnsIn(records: readonly StoredMessage[]): number[] {
  return records.filter(({ subject }) => subject.startsWith('return.') && !subject.endsWith('.passover')).map(({ time }) => time)
}

/** The whole stream as lines of JSON, for who looks for the cause. */
async function keep(records: readonly StoredMessage[], path: string): Promise<void> {
  const lines = records.map(({ sequence, time, subject, headers, data }) =>
    JSON.stringify({ sequence, time, subject, headers: headers?.() ?? {}, data: Buffer.from(data).toString('base64') }),
  )
  await writeFile(path, `${lines.join('\n')}\n`)
}
