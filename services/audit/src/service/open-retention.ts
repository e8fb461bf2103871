import { type Archive, segmentOf } from '@passover/archive'
import type { ObjectStore } from '@passover/bus'
import { keyText, makeInstance, sha256 } from '@passover/schemas'
import { Eraser } from '../erasure/eraser.js'
import type { SessionDeps } from '../erasure/session-passes.js'
import { checkEntry } from '../inbox/answer-inbox.js'
import { waitForPosition } from '../projection/wait-for-position.js'
import type { DeadLetters } from '../queries/dead-letters.js'
import { ArchiveRetention } from '../retention/archive-retention.js'
import { rulesOf } from './options.js'
import type { AuditComponents } from './parts.js'

/** What leaves the archive: what is older than the policy keeps, and what people have erased (decisions 87 and 100). */
export class RemovalTasks {
  constructor(
    private readonly aging: ArchiveRetention,
    private readonly erasing: Eraser,
  ) {}

  get trouble(): string | undefined {
    return this.aging.trouble ?? this.erasing.trouble
  }

  look(): void {
    void this.aging.look()
    void this.erasing.look()
  }

  async stop(): Promise<void> {
    await Promise.all([this.aging.stop(), this.erasing.stop()])
  }
}

/** The removal of an audit's parts. */
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

/** What finding the passes of a session takes. */
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
    dead_letters_ms: options.dead_letters_ms,
    holdsOn: (key, session) => custody.holdsOn(key, session).map(({ hold }) => hold),
    unsealedRows: () => archiver.unsealedRows(),
    unsealedOf: (key) => archiver.unsealedOf(key),
    untilRead: (sequence) => waitForPosition(parts, sequence),
  }
}

/** What an audit remembers besides its parts. */
export interface MemoryOfPasses {
  archive: Archive
  /** Undefined: not yet, or it answers nobody. */
  dead: () => DeadLetters | undefined
}

/**
 * Has what tombstones stand for leave this process's memory, whichever audit does the rest. What this gives is called when everything was read
 * that is read at the start: what was erased meanwhile may have been among it.
 */
export function forgetErased(parts: AuditComponents, remembering: MemoryOfPasses): () => void {
  let early: Set<number> | undefined = new Set()
  const gone = (sequences: ReadonlySet<number>) =>
    void forgetEverywhere(parts, remembering.archive, sequences).catch((error: unknown) =>
      parts.deps.log.warn({ err: error }, 'what was erased is not forgotten everywhere: a large part of it may stay'),
    )
  parts.custody.onErased = (sequences, said) => {
    forget(parts, remembering, sequences)
    if (said === 'done') gone(sequences)
    if (early) for (const sequence of sequences) early.add(sequence)
  }
  return () => {
    if (early) {
      forget(parts, remembering, early)
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
  // The last message of a row may be younger than what was erased; then its line in the index tells.
  for (const { row, indexed } of known) if (erased.has(row.last_sequence) || (indexed && !index.has(row))) rows.remove(keyText(row))
  dead()?.drop(erased)
  for (const k of segmentsIn(erased)) archive.forgetCached(k)
}

/** Where all of it is gone: segments that another audit wrote anew refer to less, and what waited for a person does not. */
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
