import { type ArchiveSource, eventOf } from '@passover/archive'
import { type Bus, BusReadError, PartError, type PartStore, partToken } from '@passover/bus'
import { RETENTION_SLACK_MS, type RecordedMessage, RetentionHistory } from '@passover/core'
import { keyText, type Part, part, type Step, sha256 } from '@passover/schemas'
import { StoredRecord } from '../stored-messages/stored-record.js'
import type { FindingEntry, Findings } from './findings.js'

/** Parts that messages name instead of holding them. */
export interface PartCounts {
  /** Their bytes are there, and are what the hash names. */
  whole: number
  /** Not there any more, and older than what has to be kept; or nobody can tell how long that was (a remark says so). */
  gone: number
  /** Not to be had here: not saved with an archive, or in the bucket of an agent that is registered no more and whom nobody may read. */
  elsewhere: number
}

export type PartLookup = 'whole' | 'gone' | 'elsewhere' | { fault: string } | { remark: string }

/** Where the bytes of parts are looked for. */
export type LookUpPart = (part: Part, stored: { sequence: number; time: number }) => Promise<PartLookup>

const CONCURRENCY = 4
const MAX_KNOWN_PARTS = 1_000_000
/** Parts that wait to be looked for: their messages are long, and an agent chooses how many parts each names. */
const MAX_PENDING_PARTS = 2_000

/** What is known of the step that names a part, without the message's bytes. */
interface PartReference {
  step: Step
  named: Part
}

/** Looks for the parts that steps name; a part that several name is read once. */
export class ReferencedParts {
  readonly counts: PartCounts = { whole: 0, gone: 0, elsewhere: 0 }
  private readonly whole = new Set<string>()
  private waiting: PartReference[] = []

  constructor(
    private readonly look: LookUpPart,
    private readonly findings: Pick<Findings, 'fault' | 'remark'>,
  ) {}

  /** A work step's are those that its worker got; a return's are its large artifacts. They are looked at by `settle`. */
  see(recorded: RecordedMessage): void {
    const { fact } = recorded
    if (fact.type !== 'step') return
    for (const named of referencedParts(recorded)) this.waiting.push({ step: fact, named })
  }

  /** Whether so many wait that they must be checked before more is read. */
  get isMany(): boolean {
    return this.waiting.length >= MAX_PENDING_PARTS
  }

  /** All that were seen so far. */
  async settle(): Promise<void> {
    const { waiting } = this
    this.waiting = []
    let at = 0
    const runner = async () => {
      for (let next = waiting[at++]; next; next = waiting[at++]) await this.check(next)
    }
    await Promise.all(Array.from({ length: Math.min(CONCURRENCY, waiting.length) }, runner))
  }

  private async check(one: PartReference): Promise<void> {
    const { step, named } = one
    const foreign = foreignOwner(step, named)
    if (foreign) return this.say('fault', one, foreign)
    const name = `${named.owner} ${named.hash} ${named.size}`
    const found = this.whole.has(name) ? 'whole' : await this.look(named, step)
    if (found === 'whole' && this.whole.size < MAX_KNOWN_PARTS) this.whole.add(name)
    if (typeof found === 'string') {
      this.counts[found]++
      return
    }
    if ('fault' in found) return this.say('fault', one, found.fault)
    this.counts.gone++
    this.say('remark', one, found.remark)
  }

  /** Reports what one agent names as one finding: it can name any number of parts, in buckets whose contents it chooses. */
  private say(severity: 'fault' | 'remark', { step, named }: PartReference, that: string): void {
    const { name, owner } = named
    const by = step.kind === 'return' ? step.by : step.key.originator
    const pass = keyText(step.key)
    const entry: FindingEntry = {
      sequence: step.sequence,
      pass,
      rule: 'parts',
      what: `names a part ${JSON.stringify(name)} of ${owner} that ${that}`,
    }
    const whose = owner === by ? `parts of ${owner}` : `parts that ${by} names`
    const all = (count: number) => `${count} ${whose} ${that.replace(/^is /, 'are ')}`
    const example = () => `${JSON.stringify(name)}${owner === by ? '' : ` of ${owner}`} in sequence ${step.sequence} (${pass})`
    this.findings[severity](entry, { by, alike: { kind: `${whose} ${that}`, all, example } })
  }
}

/** Who returns stows what is large under its own name. A part of a bucket that nobody may read could never be missed: it must not be named. */
function foreignOwner({ kind, by }: Step, { owner }: Part): string | undefined {
  return kind !== 'return' || owner === by ? undefined : `is not of ${by}, who returned it`
}

/** The parts of a work step or a return whose bytes lie elsewhere. */
export function referencedParts(recorded: RecordedMessage): Part[] {
  const { fact } = recorded
  if (fact.type !== 'step' || (fact.kind !== 'work' && fact.kind !== 'return')) return []
  const { parts } = (recorded.body() ?? {}) as { parts?: unknown }
  if (!Array.isArray(parts)) return []
  return parts.flatMap((one: unknown) => {
    const parsed = part.safeParse(one)
    return parsed.success && parsed.data.data === undefined && parsed.data.owner !== undefined ? [parsed.data] : []
  })
}

interface PartsOptions {
  onBytes?: ((named: Part, bytes: Uint8Array) => Promise<void>) | undefined
  /** Whether what stood under a sequence was erased or removed since it was read. */
  hasLeft?: ((sequence: number) => Promise<boolean>) | undefined
}

/**
 * In the buckets of an installation. A part that is missing is a fault while what names it has to be kept: by the retention that was in force when
 * that was stored, and none that was in force since may shorten it.
 */
export async function installationParts(bus: Bus, { onBytes, hasLeft }: PartsOptions = {}): Promise<LookUpPart> {
  const retentions = await retentionsOf(bus)
  const buckets = new PartBuckets(bus.parts)
  const left = hasLeft && cached(hasLeft)
  return async (named, { sequence, time }) => {
    const lacks = await buckets.lacks(named)
    if (lacks === 'not looked for') return { remark: NOT_LOOKED_UP }
    const found = lacks ? 'missing' : await lookUpInStore(bus.parts, named, onBytes)
    if (found !== 'missing') return found
    buckets.missed(named)
    const until = retentions.keptUntil(time)
    if (until !== undefined && until < bus.now() + RETENTION_SLACK_MS) return 'gone'
    if (await left?.(sequence)) return 'gone'
    return until === undefined ? { remark: NOT_KNOWN } : { fault: 'is missing' }
  }
}

const NOT_KNOWN = 'is missing; how long it had to be kept is not known, as versions of the policy are missing or cannot be read'
const NOT_LOOKED_UP = 'is not looked for: its bucket cannot be listed, and a thousand others are missing there'

/** A bucket with more messages is not listed: the list would cost the server more than single reads cost here. */
const MAX_LISTED_PARTS = 300_000
/** Most parts that are looked for one by one and found missing, in one bucket. */
const MAX_MISSED_PARTS = 1_000

/** Lists each agent's bucket once, so that a missing part costs no request. */
export class PartBuckets {
  private readonly lists = new Map<string, Promise<ReadonlySet<string> | undefined>>()
  private readonly misses = new Map<string, number>()

  constructor(private readonly store: Pick<PartStore, 'list'>) {}

  /** Whether a part is not in its bucket for certain. The messages that name it were stored before the bucket is listed, and their parts before them. */
  async lacks({ owner = '', hash }: Part): Promise<boolean | 'not looked for'> {
    const listing = this.lists.get(owner) ?? this.store.list(owner, MAX_LISTED_PARTS)
    this.lists.set(owner, listing)
    const listed = await listing
    if (listed) return !listed.has(partToken(hash))
    return (this.misses.get(owner) ?? 0) >= MAX_MISSED_PARTS ? 'not looked for' : false
  }

  /** It was looked for, and is not there. */
  missed({ owner = '' }: Part): void {
    this.misses.set(owner, (this.misses.get(owner) ?? 0) + 1)
  }
}

const CACHED_SEQUENCES = 64

/** Asks once for all parts of a message. */
function cached(ask: (sequence: number) => Promise<boolean>): (sequence: number) => Promise<boolean> {
  const asked = new Map<number, Promise<boolean>>()
  return (sequence) => {
    const answer = asked.get(sequence) ?? ask(sequence)
    asked.set(sequence, answer)
    const [oldest] = asked.keys()
    if (asked.size > CACHED_SEQUENCES && oldest !== undefined) asked.delete(oldest)
    return answer
  }
}

/** By the versions of the policy in the stream, which never leave it. */
async function retentionsOf(bus: Bus): Promise<RetentionHistory> {
  const retentions = new RetentionHistory(true)
  await using reader = await bus.follow({ filters: [bus.subjects.all('policy')] }, (stored) => {
    const recorded = new StoredRecord(eventOf(stored), bus.subjects)
    retentions.take({ body: recorded.body(), time: stored.time })
  })
  await Promise.race([reader.caughtUp, reader.closed])
  return retentions
}

async function lookUpInStore(
  store: Pick<PartStore, 'fetch'>,
  named: Part,
  onBytes: PartsOptions['onBytes'],
): Promise<'whole' | 'elsewhere' | 'missing' | { fault: string }> {
  try {
    const bytes = await store.fetch(named)
    await onBytes?.(named, bytes)
    return 'whole'
  } catch (error) {
    if (error instanceof BusReadError && error.reason === 'permission') return 'elsewhere'
    if (!(error instanceof PartError)) throw error
    return error.reason === 'missing' ? 'missing' : { fault: 'is not what its hash names' }
  }
}

/** The name of a part's bytes in a saved archive. */
export function savedPartName(hash: string): string {
  return `${hash}.part`
}

/** Beside the segments of a saved archive. */
export function savedArchiveParts(source: Pick<ArchiveSource, 'object'>): LookUpPart {
  return async ({ hash, size }) => {
    const bytes = await source.object(savedPartName(hash))
    if (!bytes) return 'elsewhere'
    return bytes.length === size && sha256(bytes) === hash ? 'whole' : { fault: 'is not what its hash names' }
  }
}
