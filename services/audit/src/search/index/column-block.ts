/** Number of entries in a block. */
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

/** Index entries in columns: 58 bytes for each pass. */
export class Block {
  /** Revision of the record in the bucket; 0 if the place holds no entry (any more). */
  readonly revision = new Float64Array(BLOCK_SIZE)
  /** Position in a query: time of the request, and sequence of the request (or of the first step). */
  readonly created = new Float64Array(BLOCK_SIZE)
  readonly first = new Float64Array(BLOCK_SIZE)
  readonly hash = new Uint32Array(BLOCK_SIZE)
  readonly check = new Uint32Array(BLOCK_SIZE)
  readonly session = new Uint32Array(BLOCK_SIZE)
  /** Milliseconds from request to return; −1 if the pass has not ended. */
  readonly wall = new Float32Array(BLOCK_SIZE)
  readonly originator = new Uint16Array(BLOCK_SIZE)
  readonly subagent = new Uint16Array(BLOCK_SIZE)
  readonly decisions = new Uint16Array(BLOCK_SIZE)
  /** Dictionary number of the status. */
  readonly status = new Uint8Array(BLOCK_SIZE)
  /** Dictionary number of the status in the audit entry of a pass that has ended. */
  readonly ended = new Uint8Array(BLOCK_SIZE)
  /** Dictionary number of the error code. */
  readonly code = new Uint8Array(BLOCK_SIZE)
  /** Sequence of the return; 0 if there is none. */
  readonly returned = new Float64Array(BLOCK_SIZE)
  /** Kind of open pass that the entry counts as, with a bit set if memory counts it instead; see the constants in pass-index.ts. */
  readonly counted = new Uint8Array(BLOCK_SIZE)
  /** Number of places taken. */
  used = 0
  /** Number of places that hold an entry. */
  live = 0
  /** Bounds of `created` over all entries that this block ever held. */
  oldest = Number.POSITIVE_INFINITY
  newest = Number.NEGATIVE_INFINITY
}
