import { type ArchivedEvent, type ArchiveFault, type ArchiveSource, Chain } from '@passover/archive'
import type { Subjects } from '@passover/bus'
import { type ErasedDigest, RemovalChecker, type RemovedSegmentEntry, StreamVerifier, type VerifyCounts } from '@passover/core'
import type { PassKey } from '@passover/schemas'
import { StoredRecord, subjectsFrom } from '../stored-messages/stored-record.js'
import { type ArchiveVisitor, type ArchiveWalk, type ChainValue, walkArchive } from '../stored-messages/walk-archive.js'
import { type FindingEntry, Findings, firstOf } from './findings.js'
import { type LookUpPart, type PartCounts, ReferencedParts, savedArchiveParts } from './parts.js'

/** What was compared of the audit's index; `none`: no audit answered that could, or it still reads. */
export type IndexCounts = { records: number; wrong: number } | 'none'

export interface Verdict {
  ok: boolean
  /** The first of the chain, else the first in the order of the stream. */
  first: FindingEntry | undefined
  /** How many there are. */
  faults: number
  /** Some of every rule, in the order in which they were found; what one agent caused never takes the place of others. */
  shown: FindingEntry[]
  remarks: number
  /** How many of the remarks are about messages and entries that no reader believes: a client had the server publish them. */
  untrusted: number
  remarked: FindingEntry[]
  counts: VerifyCounts
  /** Of what messages name instead of holding it; absent: it was not looked for. */
  parts?: PartCounts
  /** Records that the audit compared with its index, on which filters and statistics rest; absent: an archive has none. */
  index?: IndexCounts
  segments: number
  head: ChainValue | undefined
  begins: ArchiveWalk['begins']
  /** `untold`: of these no event tells, as there were none when they were removed, or nobody knows. */
  removed: (ArchiveWalk['removed'] & { untold?: number }) | undefined
  /** Why it was not saved, though that was asked for. */
  unsaved?: string
}

export interface VerifyOptions {
  id_window_ms: number
  from?: number | undefined
  /** A chain value of an earlier look, in hex: it must be met again. */
  expect?: string | undefined
  /** Only some passes are read, whole: what is not here is not known, and says nothing. */
  selection?: boolean | undefined
  /** `early` is told first of all versions, and of all that was said about custody. */
  early?: true
  /** `chain only`: entries are held against the chain, and not judged by the rules. */
  rules?: 'all' | 'chain only' | undefined
  /** What time it is (server ms): nothing was removed later. Default: as this machine has it. */
  now?: number | undefined
  /** Where parts are looked for that messages only name. */
  parts?: LookUpPart | undefined
  /** Called now and then with what was read. */
  onProgress?: ((events: number) => void) | undefined
}

const PROGRESS_EVERY = 4_096

interface FinishOptions {
  /** What time it is, server ms. */
  now?: number
  /** Up to when all that was stored is read (default: when the last message was stored): what was due later may have come, and was not read. */
  read_at?: number
  /** Where the archive begins, if that is not where the stream began. */
  begins?: ArchiveWalk['begins']
}

/** Everything that is judged while entries come by; rules and chain both. */
export class Verification implements ArchiveVisitor {
  readonly findings = new Findings()
  readonly verifier: StreamVerifier
  /** Whether the chain passed through the value that was expected: one that was told of a segment that was open then lies in the middle of it. */
  met = false
  readonly parts: ReferencedParts | undefined
  private readonly removals: RemovalChecker
  private subjects: Subjects | undefined

  constructor(
    private readonly options: VerifyOptions,
    subjects?: Subjects,
  ) {
    this.subjects = subjects
    this.parts = options.parts && new ReferencedParts(options.parts, this.findings)
    this.removals = new RemovalChecker({
      whole: ((options.from ?? 1) <= 1 || options.early === true) && !options.selection,
      ends: options.early ? 'now' : 'saved',
    })
    this.verifier = new StreamVerifier({
      id_window_ms: options.id_window_ms,
      from: options.from ?? 1,
      selection: options.selection,
      onFinding: (finding) => this.findings.rule(finding),
      // What readers pass over needs no parts.
      onCounted: this.parts && ((counted) => this.parts?.see(counted)),
    })
  }

  event(event: ArchivedEvent): Promise<void> | undefined {
    const recorded = this.recorded(event)
    this.verifier.add(recorded)
    this.removals.see(recorded)
    this.told()
    return this.parts?.isMany ? this.parts.settle() : undefined
  }

  async segment(): Promise<void> {
    await this.parts?.settle()
  }

  erased(entry: ErasedDigest, pass?: PassKey): void {
    this.verifier.erased(entry, pass)
    this.told()
  }

  removed(told: RemovedSegmentEntry): void {
    this.verifier.removed(told)
    this.removals.take(told)
  }

  /** What had to be there when the reading began, and what was removed that had to stay. */
  finish({ now = this.options.now ?? Date.now(), read_at, begins }: FinishOptions = {}): void {
    this.verifier.finish(read_at)
    for (const { severity, k, what } of this.removals.faults(now, begins?.k))
      this.findings[severity]({ segment: k, rule: 'retention', what })
  }

  /** What the stream holds of versions and of what was said about custody, before anything else. */
  early(event: ArchivedEvent): void {
    this.removals.hear(this.recorded(event))
  }

  /** Segments of whose removal no event tells. */
  get untold(): number {
    return this.removals.untold
  }

  private recorded(event: ArchivedEvent): StoredRecord {
    this.subjects ??= subjectsFrom(event.subject)
    return new StoredRecord(event, this.subjects)
  }

  fault(fault: ArchiveFault): void {
    this.findings.archive(fault)
  }

  chain(before: string, digests: readonly Uint8Array[]): void {
    const { expect } = this.options
    if (expect === undefined || this.met) return
    const chain = new Chain(Buffer.from(before, 'hex'))
    this.met = digests.some((digest) => {
      chain.add(digest)
      return chain.now() === expect
    })
  }

  private told(): void {
    const { messages } = this.verifier.counts
    if (messages % PROGRESS_EVERY === 0) this.options.onProgress?.(messages)
  }
}

/** Verifies an archive by itself. Throws ArchiveUnreadable. */
export async function verifyArchive(source: ArchiveSource, options: VerifyOptions): Promise<Verdict> {
  const judging = new Verification({ parts: savedArchiveParts(source), ...options })
  const fault = (found: ArchiveFault) => judging.fault(found)
  const chain = judging.chain.bind(judging)
  const visitor = options.rules === 'chain only' ? { event: () => undefined, erased: () => undefined, fault, chain } : judging
  const walked = await walkArchive(source, visitor, options.from)
  judging.finish({ begins: walked.begins })
  await verifyFiles(source, judging.findings, options)
  return verdictOf(judging, walked, options)
}

/** The files of a saved archive that the chain does not cover. */
async function verifyFiles(source: ArchiveSource, findings: Findings, { from = 1, rules }: VerifyOptions): Promise<void> {
  for (const { severity, k, what } of (await source.filesFaults?.()) ?? []) {
    if (k === undefined) findings[severity]({ rule: 'archive', what })
    else findings.archive({ k, what })
  }
  // Strays are files that were not read, and here segments were left out.
  if (from > 1 || rules === 'chain only') return
  for (const name of (await source.strays?.()) ?? [])
    findings.remark({ rule: 'archive', what: `the file ${JSON.stringify(name)} is not of this archive: nothing names it` })
}

export function verdictOf(
  { findings, verifier, met, parts, untold }: Verification,
  walked: WalkSummary,
  { expect }: VerifyOptions,
): Verdict {
  if (expect !== undefined && !met && !walked.values.some(({ hash }) => hash === expect)) {
    findings.unexpected(`does not pass through ${expect}: it is not the one that was seen before, or it ends earlier`)
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

/** What of a walk a verdict tells. */
type WalkSummary = Pick<ArchiveWalk, 'segments' | 'head' | 'values' | 'begins' | 'removed'>
