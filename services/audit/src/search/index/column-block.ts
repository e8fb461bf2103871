/** Entries a block has room for. */
export const BLOCK_SIZE = 8_192

export const COLUMNS = [
  'revision',
  'created',
  'first',
  'hash',
  'check',
  'session',
  'wall',
  'originator',
  'subagent',
  'decisions',
  'status',
  'ended',
  'code',
  'returned',
  'counted',
] as const satisfies readonly (keyof Block)[]

/** What is known of so many passes, a column each: 56 bytes a pass. */
export class Block {
  /** Revision of the record in the bucket; 0: no entry (any more). */
  readonly revision = new Float64Array(BLOCK_SIZE)
  /** Its position in a query: when it was asked for, and the sequence of its request (or first step). */
  readonly created = new Float64Array(BLOCK_SIZE)
  readonly first = new Float64Array(BLOCK_SIZE)
  readonly hash = new Uint32Array(BLOCK_SIZE)
  readonly check = new Uint32Array(BLOCK_SIZE)
  readonly session = new Uint32Array(BLOCK_SIZE)
  /** From request to return, ms; −1: it has not ended. */
  readonly wall = new Float32Array(BLOCK_SIZE)
  readonly originator = new Uint16Array(BLOCK_SIZE)
  readonly subagent = new Uint16Array(BLOCK_SIZE)
  readonly decisions = new Uint16Array(BLOCK_SIZE)
  /** Where it stands; what its audit entry says of its end; its error's code. */
  readonly status = new Uint8Array(BLOCK_SIZE)
  readonly ended = new Uint8Array(BLOCK_SIZE)
  readonly code = new Uint8Array(BLOCK_SIZE)
  /** Sequence of its return; 0: it has none. */
  readonly returned = new Float64Array(BLOCK_SIZE)
  /** Whether it is counted as open, and whether memory counts it instead. */
  readonly counted = new Uint8Array(BLOCK_SIZE)
  /** Places taken, and those of them that hold an entry. */
  used = 0
  live = 0
  /** Bounds of `created` of everything that ever stood here. */
  oldest = Number.POSITIVE_INFINITY
  newest = Number.NEGATIVE_INFINITY
}
