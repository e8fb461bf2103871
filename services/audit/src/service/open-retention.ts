import { type Archive, segmentOf } from '@passover/archive'
import type { ObjectStore } from '@passover/bus'
import { keyText, makeInstance, sha256 } from '@passover/schemas'
import { Eraser } from '../erasure/eraser.js'
import type { SessionDeps } from '../erasure/session-passes.js'
import { checkEntry } from '../inbox/answer-inbox.js'
import { waitForPosition } from '../projection/wait-for-position.js'
import type { DeadLetters } from '../queries/dead-letters.js'
import { ArchiveRetention, type OverdueSegment } from '../retention/archive-retention.js'
import { rulesOf } from './options.js'
import type { AuditComponents } from './parts.js'

const DAY_MS = 86_400_000

/**
 * Returns the milliseconds for which an unsettled dead letter keeps its pass in the stream. Never longer than the archive keeps its segment: a
 * single dead letter, which any agent can cause, would otherwise keep the messages of all agents in that segment.
 */
export function deadLettersMs({ options, logging }: Pick<AuditComponents, 'options' | 'logging'>): number {
  return Math.min(options.dead_letters_ms, (logging.retention?.days ?? Number.POSITIVE_INFINITY) * DAY_MS)
}

/** Removes data from the archive: segments older than the policy's retention, and what people erased (decisions 87 and 100). */
export class RemovalTasks {
  readonly #retention: ArchiveRetention
  readonly #eraser: Eraser

  constructor(retention: ArchiveRetention, eraser: Eraser) {
    this.#retention = retention
    this.#eraser = eraser
  }

  get trouble(): string | undefined {
    return this.#retention.trouble ?? this.#eraser.trouble
  }

  /** Returns the segments that are older than the retention and have to stay. */
  overdue(): OverdueSegment[] {
    return this.#retention.overdue()
  }

  look(): void {
    void this.#retention.look()
    void this.#eraser.look()
  }

  async stop(): Promise<void> {
    await Promise.all([this.#retention.stop(), this.#eraser.stop()])
  }
}

/** Opens the removal tasks, using the parts of an audit. */
export function openRemovalTasks(parts: AuditComponents, { archive, objects }: { archive: Archive; objects: ObjectStore }): RemovalTasks {
  const { deps, manifest, archiver, rows, logging, indexing } = parts
  const { clock, log, random } = deps
  const shared = {
    ...sessionDeps(parts, archive),
    clock,
    log,
    random,
    manifest,
    objects,
    watch: parts.custody,
    indexing,
    refersTo: (part: string, erased?: { has(sequence: number): boolean }) => archiver.refersTo(part, erased),
    instance: makeInstance(random),
  }
  return new RemovalTasks(new ArchiveRetention({ ...shared, rows, retention: () => logging.retention }), new Eraser(shared))
}

/** Returns the dependencies for finding the passes of a session. */
export function sessionDeps(parts: AuditComponents, archive: Archive): SessionDeps {
  const { deps, options, archiver, agents, acknowledged, table } = parts
  const { bus, clock } = deps
  const { custody } = parts.custody
  const rules = rulesOf(options)
  return {
    bus,
    clock,
    archive,
    rules,
    agents,
    acknowledged,
    table,
    deadLettersMs: () => deadLettersMs(parts),
    holdsOn: (key, session) => custody.holdsOn(key, session).map(({ hold }) => hold),
    unsealedRows: () => archiver.unsealedRows(),
    unsealedOf: (key) => archiver.unsealedOf(key),
    untilRead: (sequence) => waitForPosition(parts, sequence),
  }
}

/** Caches of an audit outside its parts that may hold erased messages. */
export interface MemoryOfPasses {
  archive: Archive
  /** Returns the known dead letters; `undefined` if they are not loaded yet or this process answers no questions. */
  dead: () => DeadLetters | undefined
}

/**
 * Removes erased messages from this process's memory when a tombstone names them, whichever audit carries out the erasure. Call the returned
 * function once everything that is loaded at the start has been read: it may include messages that were erased meanwhile.
 */
export function forgetErased(parts: AuditComponents, memory: MemoryOfPasses): () => void {
  let early: Set<number> | undefined = new Set()
  const gone = (sequences: ReadonlySet<number>) =>
    void forgetEverywhere(parts, memory.archive, sequences).catch((error: unknown) =>
      parts.deps.log.warn({ err: error }, 'erased passes not cleared everywhere; a large part may remain'),
    )
  parts.custody.onErased = (sequences, said) => {
    forget(parts, memory, sequences)
    if (said === 'done') gone(sequences)
    if (early) for (const sequence of sequences) early.add(sequence)
  }
  return () => {
    if (early) {
      forget(parts, memory, early)
      gone(early)
    }
    early = undefined
  }
}

function forget(
  { rows, projector, records, index }: AuditComponents,
  { archive, dead }: MemoryOfPasses,
  erased: ReadonlySet<number>,
): void {
  if (erased.size === 0) return
  const known = [...rows.values()].map((row) => ({ row, indexed: index.has(row) }))
  projector.forget(erased)
  records.forget(erased)
  index.forgetFirst(erased)
  // The last message of a row may be newer than the erased ones. In that case the removal of its index entry shows that the pass was erased.
  for (const { row, indexed } of known) if (erased.has(row.last_sequence) || (indexed && !index.has(row))) rows.remove(keyText(row))
  dead()?.drop(erased)
  for (const k of segmentsIn(erased)) archive.forgetCached(k)
}

/** Runs when an erasure is complete: reloads the indexes of segments that another audit rewrote, and checks the inbox entries of erased passes. */
async function forgetEverywhere(
  { deps, inbox, custody, options, schemas }: AuditComponents,
  archive: Archive,
  erased: ReadonlySet<number>,
): Promise<void> {
  for (const k of segmentsIn(erased)) await archive.renew(k)
  const looked = { bus: deps.bus, archive, rules: rulesOf(options), check: schemas.check, inbox }
  for (const entry of erased.size > 0 ? inbox.list({}) : [])
    if (custody.custody.erasureOf(sha256(entry.key.id))) await checkEntry(looked, entry)
}

function segmentsIn(erased: ReadonlySet<number>): Set<number> {
  return new Set([...erased].map(segmentOf))
}
