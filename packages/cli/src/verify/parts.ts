import { type ArchiveSource, eventOf } from '@passover/archive'
import { type Bus, BusReadError, PartError, type PartStore, partToken } from '@passover/bus'
import { RETENTION_SLACK_MS, type RecordedMessage, RetentionHistory } from '@passover/core'
import { keyText, type Part, part, type Step, SYSTEM, sha256 } from '@passover/schemas'
import { StoredRecord } from '../stored-messages/stored-record.js'
import type { FindingEntry, Findings } from './findings.js'

/** Counts of parts that messages reference instead of containing them. */
export interface PartCounts {
  /** Parts whose bytes exist and match their hash. */
  whole: number
  /** Missing parts past their retention, or with an unknown retention, which a remark reports. */
  gone: number
  /** Parts that are unavailable here: not saved with an archive, or in the unreadable bucket of an agent that is no longer registered. */
  elsewhere: number
}

export type PartLookup = 'whole' | 'gone' | 'elsewhere' | { fault: string } | { remark: string }

/** Looks up the bytes of a part. */
export type LookUpPart = (part: Part, stored: { sequence: number; time: number }) => Promise<PartLookup>

const CONCURRENCY = 4
const MAX_KNOWN_PARTS = 1_000_000
/** Maximum number of pending parts. Their messages are long, and an agent chooses how many parts each references. */
const MAX_PENDING_PARTS = 2_000

/** Reference to a part, without the bytes of the message. */
interface PartReference {
  step: Step
  named: Part
}

/** Checks the parts that steps reference. A part that several steps reference is read once. */
export class ReferencedParts {
  readonly #look: LookUpPart
  readonly #findings: Pick<Findings, 'fault' | 'remark'>
  readonly counts: PartCounts = { whole: 0, gone: 0, elsewhere: 0 }
  readonly #whole = new Set<string>()
  #waiting: PartReference[] = []

  constructor(look: LookUpPart, findings: Pick<Findings, 'fault' | 'remark'>) {
    this.#look = look
    this.#findings = findings
  }

  /** Queues the parts of a step for `settle`: for a work step the worker's input, for a return its large artifacts. */
  see(recorded: RecordedMessage): void {
    const { fact } = recorded
    if (fact.type !== 'step') return
    for (const named of referencedParts(recorded)) this.#waiting.push({ step: fact, named })
  }

  /** True if the pending parts must be checked before more messages are read. */
  get isMany(): boolean {
    return this.#waiting.length >= MAX_PENDING_PARTS
  }

  /** Checks all pending parts. */
  async settle(): Promise<void> {
    const waiting = this.#waiting
    this.#waiting = []
    let at = 0
    const runner = async () => {
      for (let next = waiting[at++]; next; next = waiting[at++]) await this.#check(next)
    }
    await Promise.all(Array.from({ length: Math.min(CONCURRENCY, waiting.length) }, runner))
  }

  async #check(one: PartReference): Promise<void> {
    const { step, named } = one
    const foreign = foreignOwner(step, named)
    if (foreign) return this.#say('fault', one, foreign)
    const name = `${named.owner} ${named.hash} ${named.size}`
    const found = this.#whole.has(name) ? 'whole' : await this.#look(named, step)
    if (found === 'whole' && this.#whole.size < MAX_KNOWN_PARTS) this.#whole.add(name)
    if (typeof found === 'string') {
      this.counts[found]++
      return
    }
    if ('fault' in found) return this.#say('fault', one, `${found.fault}${blameOf(step, found.fault)}`)
    this.counts.gone++
    this.#say('remark', one, found.remark)
  }

  /** Groups the findings of one agent: it can reference any number of parts, in buckets whose contents it controls. */
  #say(severity: 'fault' | 'remark', { step, named }: PartReference, that: string): void {
    const { name, owner } = named
    const by = step.kind === 'return' ? step.by : step.key.originator
    const pass = keyText(step.key)
    const entry: FindingEntry = {
      sequence: step.sequence,
      pass,
      rule: 'parts',
      what: `refers to a part ${JSON.stringify(name)} of ${owner} that ${that}`,
    }
    const whose = owner === by ? `parts of ${owner}` : `parts that ${by} refers to`
    const all = (count: number) => `${count} ${whose} ${that.replace(/^is /, 'are ')}`
    const example = () => `${JSON.stringify(name)}${owner === by ? '' : ` of ${owner}`} in sequence ${step.sequence} (${pass})`
    this.#findings[severity](entry, { by, alike: { kind: `${whose} ${that}`, all, example } })
  }
}

/**
 * Returns a fault if a return references a part of another owner. Workers store large parts under their own name; a part in a bucket that cannot be
 * read would never be found missing, so it must not be referenced.
 */
function foreignOwner({ kind, by }: Step, { owner }: Part): string | undefined {
  return kind !== 'return' || owner === by ? undefined : `is not owned by ${by}, which returned it`
}

/**
 * Agents cannot change a stored part. But nothing checks a part when a return that refers to it is stored, so the stream cannot show whether the worker
 * stored it correctly.
 */
function blameOf({ kind, by }: Step, fault: string): string {
  if (kind !== 'return' || by === SYSTEM) return ''
  return fault === MISSING ? ` (never stored by ${by}, or lost since)` : ` (stored so by ${by}, or changed since)`
}

/** Returns the parts of a work step or a return whose bytes are stored separately. */
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
  /** Checks whether the entry with that sequence was erased or removed after it was read. */
  hasLeft?: ((sequence: number) => Promise<boolean>) | undefined
}

/**
 * Looks up parts in the buckets of an installation. A missing part is a fault while its message must be kept: the retention that was in force when
 * the message was stored applies, and later versions cannot shorten it.
 */
export async function installationParts(bus: Bus, { onBytes, hasLeft }: PartsOptions = {}): Promise<LookUpPart> {
  const retentions = await retentionsOf(bus)
  const buckets = new PartBuckets(bus.parts)
  const left = hasLeft && cached(hasLeft)
  return async (named, { sequence, time }) => {
    const lacks = await buckets.lacks(named)
    if (lacks === 'not checked') return { remark: NOT_LOOKED_UP }
    const found = lacks ? 'missing' : await lookUpInStore(bus.parts, named, onBytes)
    if (found !== 'missing') return found
    buckets.missed(named)
    const until = retentions.keptUntil(time)
    if (until !== undefined && until < bus.now() + RETENTION_SLACK_MS) return 'gone'
    if (await left?.(sequence)) return 'gone'
    return until === undefined ? { remark: NOT_KNOWN } : { fault: MISSING }
  }
}

const MISSING = 'is missing'
const NOT_KNOWN = 'is missing; its retention is unknown, because policy versions are missing or cannot be read'
const NOT_LOOKED_UP = 'is not checked: its bucket cannot be listed, and a thousand other parts are missing there'

/** Maximum number of messages in a bucket that is listed; listing a larger one would cost the server more than single reads. */
const MAX_LISTED_PARTS = 300_000
/** Maximum number of parts per bucket that are looked up one by one and found missing. */
const MAX_MISSED_PARTS = 1_000

/** Lists each agent's bucket once, so that a missing part needs no request. */
export class PartBuckets {
  readonly #store: Pick<PartStore, 'list'>
  readonly #lists = new Map<string, Promise<ReadonlySet<string> | undefined>>()
  readonly #misses = new Map<string, number>()

  constructor(store: Pick<PartStore, 'list'>) {
    this.#store = store
  }

  /**
   * Returns true if a part is certainly not in its bucket. The bucket is listed after the messages that reference it were stored, and parts are
   * stored before their messages.
   */
  async lacks({ owner = '', hash }: Part): Promise<boolean | 'not checked'> {
    const listing = this.#lists.get(owner) ?? this.#store.list(owner, MAX_LISTED_PARTS)
    this.#lists.set(owner, listing)
    const listed = await listing
    if (listed) return !listed.has(partToken(hash))
    return (this.#misses.get(owner) ?? 0) >= MAX_MISSED_PARTS ? 'not checked' : false
  }

  /** Records that a part was looked up and is missing. */
  missed({ owner = '' }: Part): void {
    this.#misses.set(owner, (this.#misses.get(owner) ?? 0) + 1)
  }
}

const CACHED_SEQUENCES = 64

/** Caches the answer for all parts of a message. */
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

/** Reads the retention history from the policy versions, which never leave the stream. */
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
    return error.reason === 'missing' ? 'missing' : { fault: 'does not match its hash' }
  }
}

/** Returns the file name of a part in a saved archive. */
export function savedPartName(hash: string): string {
  return `${hash}.part`
}

/** Looks up parts beside the segments of a saved archive. */
export function savedArchiveParts(source: Pick<ArchiveSource, 'object'>): LookUpPart {
  return async ({ hash, size }) => {
    const bytes = await source.object(savedPartName(hash))
    if (!bytes) return 'elsewhere'
    return bytes.length === size && sha256(bytes) === hash ? 'whole' : { fault: 'does not match its hash' }
  }
}
