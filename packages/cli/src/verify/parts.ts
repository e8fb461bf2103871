import { type ArchiveSource, eventOf } from '@passover/archive'
import { type Bus, BusReadError, PartError, type PartStore } from '@passover/bus'
import { Retentions } from '@passover/core'
import { type Fact, keyText, type Part, part, sha256 } from '@passover/schemas'
import { StoredRecord } from './recorded.js'
import type { Findings } from './run.js'

/** Parts that messages name instead of holding them. */
export interface PartCounts {
  /** Their bytes are there, and are what the hash names. */
  whole: number
  /** Not there any more, and older than what has to be kept. */
  gone: number
  /** Not to be had here: not saved with an archive, or in the bucket of an agent that is registered no more and whom nobody may read. */
  elsewhere: number
}

export type PartLook = 'whole' | 'gone' | 'elsewhere' | { fault: string }

/** Where the bytes of parts are looked for. */
export type LookAtPart = (part: Part, stored: { time: number }) => Promise<PartLook>

const AT_ONCE = 4
const KNOWN = 20_000

/** Looks for the parts that steps name; a part that several name is read once. */
export class ReferencedParts {
  readonly counts: PartCounts = { whole: 0, gone: 0, elsewhere: 0 }
  private readonly whole = new Set<string>()
  private waiting: (() => Promise<void>)[] = []

  constructor(
    private readonly look: LookAtPart,
    private readonly findings: Pick<Findings, 'fault'>,
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
    if (foreign) return this.bad(fact, named, foreign)
    const name = `${named.owner} ${named.hash} ${named.size}`
    const found = this.whole.has(name) ? 'whole' : await this.look(named, fact)
    if (this.whole.size >= KNOWN) this.whole.clear()
    if (found === 'whole') this.whole.add(name)
    if (typeof found === 'string') {
      this.counts[found]++
      return
    }
    this.bad(fact, named, found)
  }

  private bad(fact: Fact, named: Part, { fault }: { fault: string }): void {
    const what = `names a part ${JSON.stringify(named.name)} of ${named.owner} that ${fault}`
    const pass = fact.type === 'step' ? { pass: keyText(fact.key) } : {}
    this.findings.fault({ sequence: fact.sequence, ...pass, rule: 'parts', what })
  }
}

/** Who returns stows what is large under its own name. A part of a bucket that nobody may read could never be missed: it must not be named. */
function foreignOwner(fact: Fact, { owner }: Part): { fault: string } | undefined {
  if (fact.type !== 'step' || fact.kind !== 'return' || owner === fact.by) return undefined
  return { fault: `is not of ${fact.by}, who returned it` }
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

/**
 * In the buckets of an installation. A part that is missing is a fault while what names it has to be kept: by the retention that was in force when
 * that was stored, and none that was in force since may shorten it.
 */
export async function partsOf(bus: Bus, onBytes?: (named: Part, bytes: Uint8Array) => Promise<void>): Promise<LookAtPart> {
  const retentions = await retentionsOf(bus)
  const now = bus.now()
  const isOver = (time: number) => (retentions.keptUntil(time) ?? Number.POSITIVE_INFINITY) < now
  return (named, { time }) => lookIn(bus.parts, named, { gone_is_fine: isOver(time), onBytes })
}

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

interface LookOptions {
  gone_is_fine: boolean
  onBytes?: ((named: Part, bytes: Uint8Array) => Promise<void>) | undefined
}

async function lookIn(store: Pick<PartStore, 'fetch'>, named: Part, { gone_is_fine, onBytes }: LookOptions): Promise<PartLook> {
  try {
    const bytes = await store.fetch(named)
    await onBytes?.(named, bytes)
    return 'whole'
  } catch (error) {
    if (error instanceof BusReadError && error.reason === 'permission') return 'elsewhere'
    if (!(error instanceof PartError)) throw error
    if (error.reason === 'missing') return gone_is_fine ? 'gone' : { fault: 'is missing' }
    return { fault: 'is not what its hash names' }
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
