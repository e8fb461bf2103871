import {
  type ArchivedEvent,
  FolderWriter,
  GENESIS,
  type InMemorySegment,
  SegmentBuffer,
  sealInMemory,
  segmentOf,
  storedOf,
} from '@passover/archive'
import { Subjects } from '@passover/bus'
import { openRecording, recordPass } from './recording.js'

const SESSIONS = 1_000

/** Writes an archive of at least so many entries into a folder, segment by segment, as the audit would have sealed it: passes of every kind. */
export async function writeArchive(folder: string, entries: number): Promise<{ entries: number; passes: number; head: string }> {
  const writer = await FolderWriter.open(folder, { id_window_ms: 3_600_000 })
  const subjects = new Subjects()
  const waiting: ArchivedEvent[] = []
  const stream = openRecording((event) => waiting.push(event))
  let chain_before = Buffer.from(GENESIS).toString('hex')
  let buffer = new SegmentBuffer(0)
  let written = 0
  let passes = 0
  const seal = async () => {
    const { entry, object, index } = await sealInMemory(buffer, { chain_before })
    await writer.add(entry, { object, index })
    chain_before = entry.chain_after
  }
  const write = async () => {
    for (const event of waiting.splice(0)) {
      const k = segmentOf(event.sequence)
      if (k !== buffer.k) {
        await seal()
        buffer = new SegmentBuffer(k)
      }
      const stored = storedOf(event)
      buffer.add(stored, subjects.toFact(stored), undefined)
      written++
    }
  }
  for (; written < entries; passes++) {
    stream.session = `session-${passes % SESSIONS}`
    recordPass(stream, passes)
    await write()
  }
  await seal()
  await writer.end()
  return { entries: written, passes, head: chain_before }
}

/** A folder as `verify --save` leaves it. */
export async function saveSegments(folder: string, segments: readonly InMemorySegment[], rules: { id_window_ms: number }): Promise<void> {
  const writer = await FolderWriter.open(folder, rules)
  for (const { entry, object, index } of segments) await writer.add(entry, { object, index })
  await writer.end()
}
