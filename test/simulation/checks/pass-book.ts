import { createHash } from 'node:crypto'
import { decode } from '@passover/bus'
import type { Kept } from '../server/stream.js'

/** A pass as the stream shows it, deleted messages included: folded here anew, without the product's code. */
export interface Book {
  key: string
  originator: string
  subagent: string
  id: string
  state: 'none' | 'held' | 'open' | 'done'
  attempt: number
  /** Last step that counts. */
  valid: number
  digest: string | undefined
  proof: number | undefined
  parent: string | undefined
  begun_at: number
  deadline: number
  work: number
  held: Kept | undefined
  ended: { kept: Kept; by: string; code: string | undefined; attempt: number } | undefined
  ancestors: string[]
  requests: number[]
  /** The request that its first step answers. */
  answers: number | undefined
  cancelled_at: number | undefined
  approved: Set<string>
  /** Of returns: what was decided first about each digest. */
  released: Map<string, { verdict: string; time: number }>
  /** Server time at which each attempt began. */
  fences: { sequence: number; time: number }[]
}

export interface StepText {
  kind: string
  originator: string
  subagent: string
  id: string
  by: string
}

const SYSTEM = 'passover'

export function stepIn(subject: string): StepText | undefined {
  const tokens = subject.split('.')
  const [kind = '', originator = '', subagent = '', id = '', by = ''] = tokens
  return tokens.length === 5 && ['held', 'work', 'fence', 'return'].includes(kind) ? { kind, originator, subagent, id, by } : undefined
}

export function emptyBook({ originator, subagent, id }: Omit<StepText, 'kind' | 'by'>): Book {
  return {
    key: `${originator}/${subagent}/${id}`,
    originator,
    subagent,
    id,
    state: 'none',
    attempt: 0,
    valid: 0,
    digest: undefined,
    proof: undefined,
    parent: undefined,
    begun_at: 0,
    deadline: Number.POSITIVE_INFINITY,
    work: 0,
    held: undefined,
    ended: undefined,
    ancestors: [],
    requests: [],
    answers: undefined,
    cancelled_at: undefined,
    approved: new Set(),
    released: new Map(),
    fences: [],
  }
}

/** Why a step changes nothing; undefined when it counts. */
export function impossible(book: Book, kept: Kept, { step, window_ms }: { step: StepText; window_ms: number }): string | undefined {
  const system = step.by === SYSTEM
  const attempt = Number(header(kept, 'Passover-Attempt') ?? 0)
  if (book.state === 'done') return 'ended'
  const expiry = step.kind === 'return' && system && header(kept, 'Passover-Code') === 'E005'
  if (book.state === 'none' && !expiry && isLate(kept, step, window_ms)) return 'late'
  if (step.kind === 'held') return book.state === 'none' && system ? undefined : `held when ${book.state}`
  if (step.kind === 'work') return book.state === 'none' || book.state === 'held' ? undefined : `work when ${book.state}`
  if (step.kind === 'fence')
    return book.state === 'open' && attempt === book.attempt + 1 ? undefined : `fence ${attempt} after ${book.attempt}`
  if (system) return undefined
  return book.state === 'open' && attempt === book.attempt ? undefined : `return ${attempt} in ${book.attempt}`
}

/** Takes a step that counts. */
export function enter(book: Book, kept: Kept, step: StepText): void {
  book.valid = kept.sequence
  const first = book.state === 'none'
  if (first) {
    book.begun_at = kept.time
    book.digest = header(kept, 'Passover-Digest')
    book.answers = Number(header(kept, 'Passover-Request') ?? 0)
  }
  const parent = header(kept, 'Passover-Parent')
  if (parent !== undefined) {
    book.parent = parent
    book.proof = Number(header(kept, 'Passover-Proof'))
  }
  if (step.kind === 'held') {
    book.state = 'held'
    book.held = kept
    book.deadline = kept.time + Number(header(kept, 'Passover-Expires'))
  } else if (step.kind === 'work') {
    book.state = 'open'
    book.attempt = 1
    book.work = kept.sequence
    book.deadline = kept.time + Number(header(kept, 'Passover-Timeout'))
    book.ancestors = controlIn(kept)?.ancestors ?? [book.originator]
  } else if (step.kind === 'fence') {
    book.attempt += 1
    book.fences.push({ sequence: kept.sequence, time: kept.time })
  } else {
    book.state = 'done'
    book.ended = { kept, by: step.by, code: header(kept, 'Passover-Code'), attempt: Number(header(kept, 'Passover-Attempt') ?? 0) }
  }
}

interface Control {
  ancestors?: string[]
  policy_version?: number
  budget?: { passes?: number }
}

function bodyOf(kept: Kept): unknown {
  const decoded = decode(kept.data, 'msgpack')
  return decoded.ok ? decoded.value : {}
}

interface Asked {
  reason?: string
  timeout_ms?: number
}

/** What a request says. */
export function askedIn(kept: Kept): Asked {
  return (bodyOf(kept) as { request?: Asked }).request ?? {}
}

export function controlIn(kept: Kept): Control | undefined {
  return (bodyOf(kept) as { control?: Control }).control
}

/** Whether it came back half done, by somebody honest. */
export function isHalf({ ended }: Book): boolean {
  return ended !== undefined && ended.by !== SYSTEM && ended.kept.by !== 'evil' && header(ended.kept, 'Passover-Status') === 'partial'
}

/** What was decided first about just what came back. */
export function verdictOn({ ended, released }: Book): { verdict: string; time: number } | undefined {
  return ended && released.get(createHash('sha256').update(ended.kept.data).digest('hex'))
}

export function header(kept: Kept, name: string): string | undefined {
  return kept.headers.get(name)
}

/** Rule 5: a first step later than a window after its id's time, or after the request that it names. */
function isLate(kept: Kept, step: StepText, window_ms: number): boolean {
  const made = timeOf(step.id) ?? Number(header(kept, 'Passover-Requested-At') ?? Number.NaN)
  return kept.time - made > window_ms
}

export function timeOf(id: string): number | undefined {
  return /^[0-9a-z]{17}_[A-Za-z0-9_-]{14}$/.test(id) ? Number.parseInt(id.slice(8, 17), 36) : undefined
}
