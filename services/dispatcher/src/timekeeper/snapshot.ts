import { type Bus, decode, encode, type ObjectStore } from '@passover/bus'
import { joinSnapshotChunks, OpenPasses, type OpenRules, type OpenSnapshot } from '@passover/core'
import type { AdvisoryFact } from '@passover/schemas'

/** Written in turn, so that one is whole while the other is being written. */
const NAMES = ['timekeeper-0', 'timekeeper-1'] as const
const VERSION = 3
const LIST = 0xdd
const BYTES = 0xc6
/** Passes packed at a time: about a millisecond, after which others have their turn. 100,000 at once would take half a second. */
const SLICE = 200
/** Bytes written at a time: a chunk of the object. */
const WRITTEN = 128 * 1024

/** Called after each slice and each chunk: when it settles, the next one is due. */
export type Rest = () => Promise<void>

/** What a timekeeper knows, at a position of the stream. */
export interface SnapshotState {
  open: OpenPasses
  /** Deliveries that the server gave up and that are not settled yet. */
  advisories: AdvisoryFact[]
  /** Names of held passes that were decided about and are still held. */
  decided: readonly unknown[]
  /** Sequence and server time of the last message that went into it: the stream must still say the same. */
  position: number
  time: number
  /** Whose turn the next snapshot is: not the one that this was read from. */
  turn: number
}

interface Snapshot {
  v: typeof VERSION
  position: number
  time: number
  advisories: AdvisoryFact[]
  decided: unknown[]
  /** The fold in slices, each encoded by itself. */
  slices: Uint8Array[]
}

interface Read {
  turn: number
  snapshot: Snapshot
}

/**
 * A snapshot as bytes, in pieces: of the moment of this call, whatever the fold is told meanwhile. After each slice it `rests`, and they are
 * never joined: ten MiB in one go keep everybody waiting.
 */
export async function packSnapshot(
  known: Omit<SnapshotState, 'turn'>,
  { at_a_time = SLICE, rest = others }: { at_a_time?: number; rest?: Rest } = {},
): Promise<Uint8Array[]> {
  const { open, advisories, decided, position, time } = known
  const slices: Uint8Array[] = []
  for (const slice of open.slices(at_a_time)) {
    if (slices.length > 0) await rest()
    slices.push(encode(slice, 'msgpack'))
  }
  const without: Snapshot = { v: VERSION, position, time, advisories, decided: [...decided], slices: [] }
  // In the place of its last byte, which is the empty list of slices.
  const head = encode(without, 'msgpack').subarray(0, -1)
  return [head, sized(LIST, slices.length), ...slices.flatMap((slice) => [sized(BYTES, slice.length), slice])]
}

/** What stands before a list or bytes in msgpack, in the form that has four bytes for their number. */
function sized(type: number, size: number): Uint8Array {
  const head = Buffer.alloc(5)
  head[0] = type
  head.writeUInt32BE(size, 1)
  return head
}

/**
 * Stores a snapshot in place of the older one, and `rests` after each chunk; gives the turn of the next one.
 * Any timekeeper may go on from any one's: it is a pure fold of the stream.
 */
export async function storeSnapshot(
  store: Pick<ObjectStore, 'put'>,
  turn: number,
  { packed, rest = others }: { packed: readonly Uint8Array[]; rest?: Rest },
): Promise<number> {
  await store.put(nameOf(turn), resting(packed, rest))
  return turn + 1
}

async function* resting(pieces: readonly Uint8Array[], rest: Rest): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for (const piece of pieces) {
    if (bytes >= WRITTEN) {
      bytes = 0
      await rest()
    }
    bytes += piece.length
    yield piece
  }
}

/** The newest snapshot that is whole and fits the stream; undefined: the stream is to be read from its start. */
export async function loadSnapshot(bus: Bus, store: ObjectStore, rules: OpenRules): Promise<SnapshotState | undefined> {
  const found = await Promise.all(NAMES.map((_, turn) => read(store, turn)))
  const newest = found.filter((one) => one !== undefined).sort((a, b) => b.snapshot.position - a.snapshot.position)
  for (const one of newest) {
    const known = await restore(bus, one, rules)
    if (known) return known
  }
  return undefined
}

async function restore(bus: Bus, { snapshot, turn }: Read, rules: OpenRules): Promise<SnapshotState | undefined> {
  const { position, time, advisories, decided } = snapshot
  // Another stream under the same name (made anew, restored from a backup) has something else at that sequence.
  const stored = await bus.journal.message(position)
  if (!stored || stored.time !== time) return undefined
  const open = OpenPasses.restore(joined(snapshot.slices), rules)
  return open && { open, advisories, decided, position, time, turn: turn + 1 }
}

function joined(slices: readonly Uint8Array[]): OpenSnapshot | undefined {
  const decoded = slices.map((bytes) => decode(bytes, 'msgpack'))
  return decoded.every((one) => one.ok) ? joinSnapshotChunks(decoded.map(({ value }) => value as OpenSnapshot)) : undefined
}

/** A snapshot that cannot be read is no snapshot. */
async function read(store: ObjectStore, turn: number): Promise<Read | undefined> {
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

function others(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
