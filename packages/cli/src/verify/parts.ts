import { type ArchiveSource, eventOf } from '@passover/archive'
import { type Bus, BusReadError, PartError, type PartStore } from '@passover/bus'
import { RETENTION_SLACK_MS, Retentions } from '@passover/core'
import { type Fact, keyText, type Part, part, sha256 } from '@passover/schemas'
import { StoredRecord } from './recorded.js'
import type { BadEntry, Findings } from './run.js'

/** Parts that messages name instead of holding them. */
export interface PartCounts {
  /** Their bytes are there, and are what the hash names. */
  whole: number
  /** Not there any more, and older than what has to be kept; or nobody can tell how long that was (a remark says so). */
  gone: number
  /** Not to be had here: not saved with an archive, or in the bucket of an agent that is registered no more and whom nobody may read. */
  elsewhere: number
}

export type PartLook = 'whole' | 'gone' | 'elsewhere' | { fault: string } | { remark: string }

/** Where the bytes of parts are looked for. */
export type LookAtPart = (part: Part, stored: { sequence: number; time: number }) => Promise<PartLook>

const AT_ONCE = 4
const KNOWN = 20_000

/** Looks for the parts that steps name; a part that several name is read once. */
export class ReferencedParts {
  readonly counts: PartCounts = { whole: 0, gone: 0, elsewhere: 0 }
  private readonly whole = new Set<string>()
  private waiting: (() => Promise<void>)[] = []

  constructor(
    private readonly look: LookAtPart,
    private readonly findings: Pick<Findings, 'fault' | 'remark'>,
  ) {}

  /** A work step's are those that its worker got; a return's are its large artifacts. They are looked at by `settle`. */
  see(recorded: StoredRecord): void {
    for (const named of referencedBy(recorded)) this.waiting.push(() => this.check(recorded, named))
  }

  /** All that were seen so far. */
  async settle(): Promise<void> {
    const { waiting } = this
    this.waiting = []
    let at = 0
    const runner = async () => {
      for (let next = waiting[at++]; next; next = waiting[at++]) await next()
    }
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, waiting.length) }, runner))
  }

  private async check({ fact }: StoredRecord, named: Part): Promise<void> {
    const foreign = foreignOwner(fact, named)
    if (foreign) return this.findings.fault(entryOf(fact, named, foreign))
    const name = `${named.owner} ${named.hash} ${named.size}`
    const found = this.whole.has(name) ? 'whole' : await this.look(named, fact)
    if (this.whole.size >= KNOWN) this.whole.clear()
    if (found === 'whole') this.whole.add(name)
    if (typeof found === 'string') {
      this.counts[found]++
      return
    }
    if ('fault' in found) return this.findings.fault(entryOf(fact, named, found.fault))
    this.counts.gone++
    this.findings.remark(entryOf(fact, named, found.remark))
  }
}

function entryOf(fact: Fact, { name, owner }: Part, that: string): BadEntry {
  const pass = fact.type === 'step' ? { pass: keyText(fact.key) } : {}
  return { sequence: fact.sequence, ...pass, rule: 'parts', what: `names a part ${JSON.stringify(name)} of ${owner} that ${that}` }
}

/** Who returns stows what is large under its own name. A part of a bucket that nobody may read could never be missed: it must not be named. */
function foreignOwner(fact: Fact, { owner }: Part): string | undefined {
  if (fact.type !== 'step' || fact.kind !== 'return' || owner === fact.by) return undefined
  return `is not of ${fact.by}, who returned it`
}

/** The parts of a work step or a return whose bytes lie elsewhere. */
export function referencedBy(recorded: StoredRecord): Part[] {
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
export async function partsOf(bus: Bus, { onBytes, hasLeft }: PartsOptions = {}): Promise<LookAtPart> {
  const retentions = await retentionsOf(bus)
  return async (named, { sequence, time }) => {
    const found = await lookIn(bus.parts, named, onBytes)
    if (found !== 'missing') return found
    const until = retentions.keptUntil(time)
    if (until !== undefined && until < bus.now() + RETENTION_SLACK_MS) return 'gone'
    if (await hasLeft?.(sequence)) return 'gone'
    return until === undefined ? { remark: NOT_KNOWN } : { fault: 'is missing' }
  }
}

const NOT_KNOWN = 'is missing; how long it had to be kept is not known, as versions of the policy are missing or cannot be read'

/** By the versions of the policy in the stream, which never leave it. */
async function retentionsOf(bus: Bus): Promise<Retentions> {
  const retentions = new Retentions(true)
  await using reader = await bus.follow({ filters: [bus.subjects.all('policy')] }, (stored) => {
    const recorded = new StoredRecord(eventOf(stored), bus.subjects)
    retentions.take({ body: recorded.body(), time: stored.time })
  })
  await Promise.race([reader.caughtUp, reader.closed])
  return retentions
}

async function lookIn(
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
export function savedPart(hash: string): string {
  return `${hash}.part`
}

/** Beside the segments of a saved archive. */
export function partsBeside(source: Pick<ArchiveSource, 'object'>): LookAtPart {
  return async ({ hash, size }) => {
    const bytes = await source.object(savedPart(hash))
    if (!bytes) return 'elsewhere'
    return bytes.length === size && sha256(bytes) === hash ? 'whole' : { fault: 'is not what its hash names' }
  }
}
