import { type ArchiveFault, faultText, SEGMENT_SIZE } from '@passover/archive'
import type { VerifyFinding } from '@passover/core'
import { keyText } from '@passover/schemas'

/** One bad entry, or several of the same kind caused by one agent. */
export interface FindingEntry {
  sequence?: number
  segment?: number
  pass?: string
  rule: string
  what: string
  /** Agent or person who caused it; absent for a service or if unknown. */
  by?: string
  /** Number of entries that this one represents; absent for one. */
  count?: number
  /** Examples, if it represents several. */
  examples?: string[]
}

/** Describes how several entries of one kind are reported as one. */
export interface FindingGroup {
  kind: string
  /** Describes all of them in words. */
  all: (count: number) => string
  /** Describes one of them in words. Called only for the first ones. */
  example: () => string
}

/** Cause of an entry, and the group with which it is reported as one. */
interface Grouping {
  by?: string | undefined
  alike?: FindingGroup | undefined
}

/** Maximum number of entries kept for each rule. */
const MAX_KEPT = 20
const MAX_EXAMPLES = 3

interface Kept {
  entry: FindingEntry
  by: string
  /** Position in the order of discovery. */
  at: number
  alike: FindingGroup | undefined
  count: number
  examples: string[]
}

/**
 * Keeps some of the entries of each rule. An agent may cause any number of them, so each rule has its own share. Within it, agents with many entries
 * make room for those with few, and entries of one kind are reported as one.
 */
class RuleFindings {
  count = 0
  readonly kept: Kept[] = []

  add(entry: FindingEntry, at: number, { by = '', alike }: Grouping): void {
    this.count++
    const one = alike && this.kept.find((kept) => kept.by === by && kept.alike?.kind === alike.kind)
    if (one) {
      one.count++
      if (one.examples.length < MAX_EXAMPLES) one.examples.push(alike.example())
    } else if (this.#makeRoom(by)) {
      this.kept.push({ entry: by === '' ? entry : { ...entry, by }, by, at, alike, count: 1, examples: alike ? [alike.example()] : [] })
    }
  }

  /** Returns true if an entry caused by `by` may be kept. If the share is full, drops one of the agent with the most entries. */
  #makeRoom(by: string): boolean {
    if (this.kept.length < MAX_KEPT) return true
    const counts = new Map<string, number>()
    for (const kept of this.kept) counts.set(kept.by, (counts.get(kept.by) ?? 0) + 1)
    const [most, number] = [...counts].reduce((one, other) => (other[1] > one[1] ? other : one))
    if (number <= (counts.get(by) ?? 0) + 1) return false
    this.kept.splice(
      this.kept.findLastIndex((kept) => kept.by === most),
      1,
    )
    return true
  }
}

function reported({ entry, alike, count, examples }: Kept): FindingEntry {
  if (!alike || count === 1) return entry
  const { pass: _, ...rest } = entry
  return { ...rest, what: alike.all(count), count, examples }
}

class Shares {
  readonly #shares = new Map<string, RuleFindings>()
  #at = 0

  add(entry: FindingEntry, grouping: Grouping, name = entry.rule): void {
    const share = this.#shares.get(name) ?? new RuleFindings()
    this.#shares.set(name, share)
    share.add(entry, this.#at++, grouping)
  }

  get count(): number {
    return [...this.#shares.values()].reduce((sum, { count }) => sum + count, 0)
  }

  counted(name: string): number {
    return this.#shares.get(name)?.count ?? 0
  }

  get entries(): FindingEntry[] {
    const kept = [...this.#shares.values()].flatMap((share) => share.kept)
    return kept.sort((one, other) => one.at - other.at).map(reported)
  }
}

/** Collects findings in stream order. */
export class Findings {
  readonly #faulty = new Shares()
  readonly #noted = new Shares()

  get faults(): FindingEntry[] {
    return this.#faulty.entries
  }

  get faultCount(): number {
    return this.#faulty.count
  }

  get remarks(): FindingEntry[] {
    return this.#noted.entries
  }

  get remarkCount(): number {
    return this.#noted.count
  }

  get untrusted(): number {
    return this.#noted.counted('trust')
  }

  archive({ k, sequence, pass, what }: ArchiveFault): void {
    this.fault({
      segment: k,
      rule: 'chain',
      what,
      ...(sequence === undefined ? {} : { sequence }),
      ...(pass ? { pass: keyText(pass) } : {}),
    })
  }

  rule({ severity, rule, sequence, key, by, what }: VerifyFinding): void {
    this[severity]({ sequence, rule, what, ...(key ? { pass: keyText(key) } : {}) }, { by })
  }

  remark(entry: FindingEntry, grouping: Grouping = {}): void {
    this.#noted.add(entry, grouping)
  }

  fault(entry: FindingEntry, grouping: Grouping = {}): void {
    this.#faulty.add(entry, grouping)
  }

  /** Reports that the chain does not pass through the expected value. Has its own share, so that other findings cannot displace it. */
  unexpected(what: string): void {
    this.#faulty.add({ rule: 'chain', what }, {}, 'expected')
  }
}

/** Returns the first fault: of the chain if there is one, else in stream order. */
export function firstOf(faults: readonly FindingEntry[]): FindingEntry | undefined {
  return [...faults].sort((one, other) => Number(other.rule === 'chain') - Number(one.rule === 'chain') || placeOf(one) - placeOf(other))[0]
}

/** Returns the position of a finding. One about a whole segment comes before its entries. */
function placeOf({ sequence, segment }: FindingEntry): number {
  return sequence ?? (segment === undefined ? Number.POSITIVE_INFINITY : segment * SEGMENT_SIZE)
}

/** Describes one bad entry in words. */
export function entryText({ sequence, segment, pass, rule, what, count, examples = [] }: FindingEntry): string {
  if (count !== undefined) return `${what}, such as ${examples.join(', ')} [${rule}]`
  if (segment !== undefined) return faultText({ k: segment, sequence, what: pass ? `(${pass}) ${what}` : what })
  if (rule === 'index') return `${pass === undefined ? '' : `pass ${pass}: `}${what}; \`passover audit rebuild\` fixes it [${rule}]`
  if (rule === 'archive') return `${what} [${rule}]`
  const where = sequence === undefined ? 'the chain' : `sequence ${sequence}${pass ? ` (${pass})` : ''}`
  return `${where} ${what} [${rule}]`
}

/** Bounds on the number of lines shown per rule; within them, one line for each agent that caused entries. */
const MIN_LINES = 3
const MAX_LINES = 10

/** Describes faults in words: some of every rule and of every agent, those of the chain first. */
export function faultLines(faults: readonly FindingEntry[], all: number): string[] {
  const rules = [...new Set(['chain', ...faults.map(({ rule }) => rule)])]
  const shown = rules.flatMap((name) => {
    const entries = faults.filter(({ rule }) => rule === name)
    // The last one is about the expected chain value.
    return name === 'chain' ? [...entries.slice(0, MAX_LINES), ...entries.slice(MAX_LINES).slice(-1)] : ofEach(entries)
  })
  const rest = all - shown.reduce((sum, { count = 1 }) => sum + count, 0)
  return [...shown.map(entryText), ...(rest > 0 ? [`… and ${rest} more`] : [])]
}

/** Selects the first entry of each agent, then the second of each, and so on. */
function ofEach(entries: readonly FindingEntry[]): FindingEntry[] {
  const seen = new Map<string | undefined, number>()
  const ranked = entries.map((entry) => {
    const rank = seen.get(entry.by) ?? 0
    seen.set(entry.by, rank + 1)
    return { entry, rank }
  })
  const most = Math.min(MAX_LINES, Math.max(MIN_LINES, seen.size))
  return ranked
    .sort((one, other) => one.rank - other.rank)
    .slice(0, most)
    .map(({ entry }) => entry)
}
