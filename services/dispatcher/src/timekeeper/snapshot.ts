import { type Bus, decode, encode, type ObjectStore } from '@passover/bus'
import { joinSnapshotChunks, OpenPasses, type OpenRules, type OpenSnapshot } from '@passover/core'
import type { AdvisoryFact } from '@passover/schemas'

/** Object names, written alternately so that one snapshot is always complete. */
const NAMES = ['timekeeper-0', 'timekeeper-1'] as const
const VERSION = 3
const MSGPACK_ARRAY32 = 0xdd
const MSGPACK_BIN32 = 0xc6
/** Number of passes packed at a time, about a millisecond of work, before other tasks run. 100,000 at once would take half a second. */
const PASSES_PER_SLICE = 200
/** Bytes written at a time: the size of one object chunk. */
const CHUNK_BYTES = 128 * 1024

/** Called after each slice and each chunk. Work continues when it resolves. */
export type Rest = () => Promise<void>

/** State of a timekeeper at a stream position. */
export interface SnapshotState {
  open: OpenPasses
  /** Deliveries that the server gave up and that are not settled yet. */
  advisories: AdvisoryFact[]
  /** Names of held passes that have decisions and are still held. */
  decided: readonly unknown[]
  /** Sequence and server time of the last message included. The stream must still have the same message there. */
  position: number
  time: number
  /** Number of the next snapshot. It selects the object that this state was not read from. */
  turn: number
}

interface Snapshot {
  v: typeof VERSION
  position: number
  time: number
  advisories: AdvisoryFact[]
  decided: unknown[]
  /** The fold in slices, each encoded separately. */
  slices: Uint8Array[]
}

interface StoredSnapshot {
  turn: number
  snapshot: Snapshot
}

/**
 * Packs a snapshot into byte pieces. The snapshot shows the fold at the time of this call, even if the fold changes meanwhile. Calls `rest` between
 * slices. The pieces are never joined, because copying ten MiB at once would block other tasks.
 */
export async function packSnapshot(
  known: Omit<SnapshotState, 'turn'>,
  { at_a_time = PASSES_PER_SLICE, rest = yieldToOthers }: { at_a_time?: number; rest?: Rest } = {},
): Promise<Uint8Array[]> {
  const { open, advisories, decided, position, time } = known
  const slices: Uint8Array[] = []
  for (const slice of open.slices(at_a_time)) {
    if (slices.length > 0) await rest()
    slices.push(encode(slice, 'msgpack'))
  }
  const without: Snapshot = { v: VERSION, position, time, advisories, decided: [...decided], slices: [] }
  // Drop the last byte, the empty list of slices; the actual list follows.
  const head = encode(without, 'msgpack').subarray(0, -1)
  return [
    head,
    msgpackHeader(MSGPACK_ARRAY32, slices.length),
    ...slices.flatMap((slice) => [msgpackHeader(MSGPACK_BIN32, slice.length), slice]),
  ]
}

/** Returns the msgpack header of a list or byte string, in the form with a four-byte size. */
function msgpackHeader(type: number, size: number): Uint8Array {
  const head = Buffer.alloc(5)
  head[0] = type
  head.writeUInt32BE(size, 1)
  return head
}

/**
 * Stores a snapshot in place of the older one and calls `rest` after each chunk. Returns the number of the next snapshot.
 * A timekeeper may continue from the snapshot of another one, since it is a pure fold of the stream.
 */
export async function storeSnapshot(
  store: Pick<ObjectStore, 'put'>,
  turn: number,
  { packed, rest = yieldToOthers }: { packed: readonly Uint8Array[]; rest?: Rest },
): Promise<number> {
  await store.put(nameOf(turn), resting(packed, rest))
  return turn + 1
}

async function* resting(pieces: readonly Uint8Array[], rest: Rest): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for (const piece of pieces) {
    if (bytes >= CHUNK_BYTES) {
      bytes = 0
      await rest()
    }
    bytes += piece.length
    yield piece
  }
}

/** Loads the newest snapshot that is complete and matches the stream. `undefined` if the stream has to be read from its beginning. */
export async function loadSnapshot(bus: Bus, store: ObjectStore, rules: OpenRules): Promise<SnapshotState | undefined> {
  const snapshots = await Promise.all(NAMES.map((_, turn) => read(store, turn)))
  const newest = snapshots.filter((one) => one !== undefined).sort((a, b) => b.snapshot.position - a.snapshot.position)
  for (const one of newest) {
    const known = await restore(bus, one, rules)
    if (known) return known
  }
  return undefined
}

async function restore(bus: Bus, { snapshot, turn }: StoredSnapshot, rules: OpenRules): Promise<SnapshotState | undefined> {
  const { position, time, advisories, decided } = snapshot
  // Another stream under the same name (re-created or restored from a backup) has a different message at that sequence.
  const stored = await bus.journal.message(position)
  if (!stored || stored.time !== time) return undefined
  const open = OpenPasses.restore(joined(snapshot.slices), rules)
  return open && { open, advisories, decided, position, time, turn: turn + 1 }
}

function joined(slices: readonly Uint8Array[]): OpenSnapshot | undefined {
  const decoded = slices.map((bytes) => decode(bytes, 'msgpack'))
  return decoded.every((one) => one.ok) ? joinSnapshotChunks(decoded.map(({ value }) => value as OpenSnapshot)) : undefined
}

/** Reads one snapshot. An unreadable snapshot counts as missing. */
async function read(store: ObjectStore, turn: number): Promise<StoredSnapshot | undefined> {
  try {
    const data = await store.get(nameOf(turn))
    const decoded = data && decode(data, 'msgpack')
    const snapshot = decoded?.ok ? (decoded.value as Partial<Snapshot> | null) : undefined
    const { v, position, advisories, decided, slices } = snapshot ?? {}
    if (v !== VERSION || typeof position !== 'number' || ![advisories, decided, slices].every(Array.isArray)) return undefined
    return { turn, snapshot: snapshot as Snapshot }
  } catch {
    return undefined
  }
}

function nameOf(turn: number): string {
  return NAMES[turn % 2] ?? NAMES[0]
}

function yieldToOthers(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
