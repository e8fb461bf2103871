import { SEGMENT_SIZE } from '@passover/archive'
import type { Bus } from '@passover/bus'

/** What the stream holds now: subject and sequence. */
export async function storedNow(bus: Bus): Promise<{ sequence: number; subject: string }[]> {
  const found: { sequence: number; subject: string }[] = []
  const reader = await bus.follow({ headers_only: true }, ({ sequence, subject }) => void found.push({ sequence, subject }))
  await reader.caughtUp
  await reader[Symbol.asyncDispose]()
  return found
}

/** What it holds now, without what originators say that they heard: they say it some time after their passes ended. */
export async function storedForPasses(bus: Bus): Promise<{ sequence: number; subject: string }[]> {
  return (await storedNow(bus)).filter(({ subject }) => bus.subjects.parse(subject)?.kind !== 'acknowledged')
}

/** So many small messages that nobody needs, until the stream's last sequence is this. */
export async function fillTo(bus: Bus, sequence: number): Promise<void> {
  for (let { last } = await bus.bounds(); last < sequence; last = (await bus.bounds()).last) {
    const subject = bus.subjects.acknowledged('nobody')
    await Promise.all(Array.from({ length: Math.min(256, sequence - last) }, () => bus.publish({ subject, data: new Uint8Array(10) })))
  }
}

/** Fills the segment of the stream's last message, however many segments there are by now. */
export async function fillLastSegment(bus: Bus): Promise<void> {
  const { last } = await bus.bounds()
  await fillTo(bus, Math.ceil(last / SEGMENT_SIZE) * SEGMENT_SIZE)
}
