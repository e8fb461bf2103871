import { ARCHIVE_BUCKET, Manifest, readSegment, SEGMENT_SIZE, verifyChain } from '@passover/archive'
import { PASSES_BUCKET, storedRecord } from '@passover/audit'
import type { Bus } from '@passover/bus'
import type { Judgement } from '@passover/chaos'
import { checkStream } from '@passover/chaos'
import type { PassRecord } from '@passover/schemas'
import { until } from '../support/processes/until.js'
import type { Field } from './field.js'

/** Reads the stream again and again until every pass has ended, or time is up; the last reading. */
export async function judgedWhenQuiet(field: Field, options: { bound_ms: number; deadline_ms: number }): Promise<Judgement> {
  const { bound_ms, deadline_ms } = options
  const deadline = Date.now() + deadline_ms
  for (;;) {
    const judgement = await checkStream(field.nats.servers, { bound_ms })
    const { passes, totals } = judgement
    const waiting = [...passes.values()].some(({ begun }) => begun === undefined)
    if ((totals.open === 0 && !waiting) || Date.now() > deadline) return judgement
    await new Promise((again) => setTimeout(again, 1_000))
  }
}

/** Every terminal return is there once; gives what is wrong, a few of each kind. */
export function unended({ passes }: Judgement): string[] {
  return [...passes.values()]
    .filter(({ returns }) => returns !== 1)
    .map((found) => `${found.key} (requests ${found.requests.join(' ')}) has ${found.returns} returns`)
}

/** Attempts that began twice, that the stream does not know, or that no pass had. */
export function misbegun(begun: readonly string[], { passes }: Judgement): string[] {
  const counted = new Map<string, number>()
  for (const line of begun) counted.set(line, (counted.get(line) ?? 0) + 1)
  return [...counted].flatMap(([line, times]) => {
    const [key = '', attempt] = line.split(' ')
    const found = passes.get(key)
    if (times > 1) return [`attempt ${line} began ${times} times`]
    if (!found || found.works === 0) return [`attempt ${line} began without work`]
    return Number(attempt) > found.attempts ? [`attempt ${line} began, the stream knows ${found.attempts}`] : []
  })
}

/** Passes whose record is missing or says something else than the stream, once the audit has caught up. */
export async function wrongRecords(bus: Bus, { passes }: Judgement, deadline_ms: number): Promise<string[]> {
  const table = await bus.table(PASSES_BUCKET, storedRecord)
  let wrong: string[] = []
  await until(
    async () => {
      const records = new Map<string, PassRecord[]>()
      for await (const { value } of table.entries()) {
        const key = `${value.key.originator}/${value.key.subagent}/${value.key.id}`
        records.set(key, [...(records.get(key) ?? []), value])
      }
      wrong = [...passes.values()].flatMap((found) => {
        const [record, another] = records.get(found.key) ?? []
        if (!record) return [`${found.key} has no record`]
        if (another) return [`${found.key} has more than one record`]
        const told = [record.sequences.return, record.error?.code].join(' ')
        const stored = [found.ended?.sequence, found.ended?.code].join(' ')
        return told === stored ? [] : [`${found.key}: the record says ${told}, the stream ${stored}`]
      })
      for (const key of records.keys()) if (!passes.has(key)) wrong.push(`${key} has a record and is not in the stream`)
      return wrong.length === 0
    },
    { what: 'every pass has its record', deadline_ms, every_ms: 500 },
  ).catch((error: Error) => {
    if (wrong.length === 0) throw error
  })
  return wrong
}

/** Every sequence of each full segment once, none between them missing, and the chain whole. */
export async function checkArchive(bus: Bus, deadline_ms: number): Promise<{ segments: number; events: number; problems: string[] }> {
  const manifest = await Manifest.open(bus)
  const objects = await bus.objects(ARCHIVE_BUCKET)
  const { last } = await bus.bounds()
  const full = Math.floor((last + 1) / SEGMENT_SIZE)
  await until(async () => (await manifest.all()).length >= full, { what: `${full} segments are sealed`, deadline_ms, every_ms: 500 })
  const problems: string[] = []
  let next = 1
  for (const entry of await manifest.all()) {
    for (const frame of await readSegment(objects, entry)) {
      const sequence = frame.kind === 'event' ? frame.event.sequence : frame.sequence
      if (sequence !== next) problems.push(`segment ${entry.k} has ${sequence} where ${next} is due`)
      next = sequence + 1
    }
  }
  const verified = await verifyChain(manifest, objects)
  if (!verified.ok) problems.push(`segment ${verified.k}: ${verified.what}`)
  return { segments: full, events: next - 1, problems }
}
