import { type ArchivedEvent, type ArchiveFault, type ArchiveSource, Chain } from '@passover/archive'
import type { Subjects } from '@passover/bus'
import { type ErasedDigest, RemovalChecker, type RemovedSegmentEntry, StreamVerifier, type VerifyCounts } from '@passover/core'
import type { PassKey } from '@passover/schemas'
import { StoredRecord, subjectsFrom } from '../stored-messages/stored-record.js'
import { type ArchiveVisitor, type ArchiveWalk, type ChainValue, walkArchive } from '../stored-messages/walk-archive.js'
import { type FindingEntry, Findings, firstOf } from './findings.js'
import { type LookUpPart, type PartCounts, ReferencedParts, savedArchiveParts } from './parts.js'

/** Result of comparing the audit's index; `none` if no audit service answered that is up to date. */
export type IndexCounts = { records: number; wrong: number } | 'none'

export interface Verdict {
  ok: boolean
  /** First fault of the chain, else the first in stream order. */
  first: FindingEntry | undefined
  /** Total number of faults. */
  faults: number
  /** Some faults of every rule, in the order of discovery. Those that one agent caused never displace others. */
  shown: FindingEntry[]
  remarks: number
  /** Number of remarks about messages that no reader trusts, because a client had the server publish them. */
  untrusted: number
  remarked: FindingEntry[]
  counts: VerifyCounts
  /** Parts that messages reference; absent if they were not checked. */
  parts?: PartCounts
  /** Records compared with the audit's index, on which filters and statistics rely; absent for an archive, which has none. */
  index?: IndexCounts
  segments: number
  head: ChainValue | undefined
  begins: ArchiveWalk['begins']
  /** `untold`: number of these segments without a removal event, either from before such events existed or for an unknown reason. */
  removed: (ArchiveWalk['removed'] & { untold?: number }) | undefined
  /** Reason why the requested save did not happen. */
  unsaved?: string
}

export interface VerifyOptions {
  id_window_ms: number
  from?: number | undefined
  /** Chain value of an earlier verification in hex, through which the chain must pass. */
  expect?: string | undefined
  /** True if only some passes are read, each completely. Other entries are unknown, and not reported as missing. */
  selection?: boolean | undefined
  /** Set if `early` is called with all policy versions and custody events before other entries are read. */
  early?: true
  /** `chain only` checks entries against the chain, but not by the rules. */
  rules?: 'all' | 'chain only' | undefined
  /** Current time (server ms); nothing can have been removed later. Default: the clock of this machine. */
  now?: number | undefined
  /** Looks up parts that messages only reference. */
  parts?: LookUpPart | undefined
  /** Called at intervals with the number of messages read so far. */
  onProgress?: ((events: number) => void) | undefined
}

const PROGRESS_EVERY = 4_096

interface FinishOptions {
  /** Current time in server milliseconds. */
  now?: number
  /** Time up to which everything stored was read (default: that of the last message). Later deadlines are not checked. */
  read_at?: number
  /** Start of the archive, if it is not that of the stream. */
  begins?: ArchiveWalk['begins']
}

/** Checks entries against the rules and the chain while they are read. */
export class Verification implements ArchiveVisitor {
  readonly #options: VerifyOptions
  readonly findings = new Findings()
  readonly verifier: StreamVerifier
  /** True if the chain passed through the expected value. A value reported for a segment that was still open is in the middle of it. */
  met = false
  readonly parts: ReferencedParts | undefined
  readonly #removals: RemovalChecker
  #subjects: Subjects | undefined

  constructor(options: VerifyOptions, subjects?: Subjects) {
    this.#options = options
    this.#subjects = subjects
    this.parts = options.parts && new ReferencedParts(options.parts, this.findings)
    this.#removals = new RemovalChecker({
      whole: ((options.from ?? 1) <= 1 || options.early === true) && !options.selection,
      ends: options.early ? 'now' : 'saved',
    })
    this.verifier = new StreamVerifier({
      id_window_ms: options.id_window_ms,
      from: options.from ?? 1,
      selection: options.selection,
      onFinding: (finding) => this.findings.rule(finding),
      // Parts are needed only for entries that readers use.
      onCounted: this.parts && ((counted) => this.parts?.see(counted)),
    })
  }

  event(event: ArchivedEvent): Promise<void> | undefined {
    const recorded = this.#recorded(event)
    this.verifier.add(recorded)
    this.#removals.see(recorded)
    this.#reportProgress()
    return this.parts?.isMany ? this.parts.settle() : undefined
  }

  async segment(): Promise<void> {
    await this.parts?.settle()
  }

  erased(entry: ErasedDigest, pass?: PassKey): void {
    this.verifier.erased(entry, pass)
    this.#reportProgress()
  }

  removed(entry: RemovedSegmentEntry): void {
    this.verifier.removed(entry)
    this.#removals.take(entry)
  }

  /** Reports what is missing although it existed when reading began, and what was removed although it had to be kept. */
  finish({ now = this.#options.now ?? Date.now(), read_at, begins }: FinishOptions = {}): void {
    this.verifier.finish(read_at)
    for (const { severity, k, what } of this.#removals.faults(now, begins?.k))
      this.findings[severity]({ segment: k, rule: 'retention', what })
  }

  /** Takes policy versions and custody events of the stream, before anything else. */
  early(event: ArchivedEvent): void {
    this.#removals.hear(this.#recorded(event))
  }

  /** Number of removed segments without a removal event. */
  get untold(): number {
    return this.#removals.untold
  }

  #recorded(event: ArchivedEvent): StoredRecord {
    this.#subjects ??= subjectsFrom(event.subject)
    return new StoredRecord(event, this.#subjects)
  }

  fault(fault: ArchiveFault): void {
    this.findings.archive(fault)
  }

  chain(before: string, digests: readonly Uint8Array[]): void {
    const { expect } = this.#options
    if (expect === undefined || this.met) return
    const chain = new Chain(Buffer.from(before, 'hex'))
    this.met = digests.some((digest) => {
      chain.add(digest)
      return chain.now() === expect
    })
  }

  #reportProgress(): void {
    const { messages } = this.verifier.counts
    if (messages % PROGRESS_EVERY === 0) this.#options.onProgress?.(messages)
  }
}

/** Verifies an archive on its own. Throws ArchiveUnreadable. */
export async function verifyArchive(source: ArchiveSource, options: VerifyOptions): Promise<Verdict> {
  const verification = new Verification({ parts: savedArchiveParts(source), ...options })
  const fault = (found: ArchiveFault) => verification.fault(found)
  const chain = verification.chain.bind(verification)
  const visitor = options.rules === 'chain only' ? { event: () => undefined, erased: () => undefined, fault, chain } : verification
  const walked = await walkArchive(source, visitor, options.from)
  verification.finish({ begins: walked.begins })
  await verifyFiles(source, verification.findings, options)
  return verdictOf(verification, walked, options)
}

/** Checks the files of a saved archive that the chain does not cover. */
async function verifyFiles(source: ArchiveSource, findings: Findings, { from = 1, rules }: VerifyOptions): Promise<void> {
  for (const { severity, k, what } of (await source.filesFaults?.()) ?? []) {
    if (k === undefined) findings[severity]({ rule: 'archive', what })
    else findings.archive({ k, what })
  }
  // Stray files are those that were not read, and here segments were skipped.
  if (from > 1 || rules === 'chain only') return
  for (const name of (await source.strays?.()) ?? [])
    findings.remark({ rule: 'archive', what: `the file ${JSON.stringify(name)} does not belong to this archive: nothing refers to it` })
}

export function verdictOf(
  { findings, verifier, met, parts, untold }: Verification,
  walked: WalkSummary,
  { expect }: VerifyOptions,
): Verdict {
  if (expect !== undefined && !met && !walked.values.some(({ hash }) => hash === expect)) {
    findings.unexpected(`does not contain ${expect}: it is not the chain of the earlier run, or it ends earlier`)
  }
  return {
    ok: findings.faultCount === 0,
    first: firstOf(findings.faults),
    faults: findings.faultCount,
    shown: findings.faults,
    remarks: findings.remarkCount,
    untrusted: findings.untrusted,
    remarked: findings.remarks,
    counts: verifier.counts,
    ...(parts ? { parts: parts.counts } : {}),
    segments: walked.segments,
    head: walked.head,
    begins: walked.begins,
    removed: walked.removed && { ...walked.removed, ...(untold > 0 ? { untold } : {}) },
  }
}

/** Fields of a walk that a verdict includes. */
type WalkSummary = Pick<ArchiveWalk, 'segments' | 'head' | 'values' | 'begins' | 'removed'>
