import type { DecisionFilter, PassFilter, RecordedDecision } from '@passover/schemas'
import type { Block } from './column-block.js'
import { type Dictionary, OTHER } from './dictionary.js'

/** Filter of a query. With `party`, only passes with this agent as originator or subagent match. */
export type IndexFilter = Omit<PassFilter, 'text'> & { party?: string | undefined }

export interface Dictionaries {
  agents: Dictionary
  sessions: Dictionary
  words: Dictionary
  decisions: Dictionary
}

/** True if the entry at a place of a block may match; the record decides what the entry cannot. */
export type Matcher = (block: Block, at: number) => boolean

const NOBODY = 0xffff_ffff
const ANY = -1

/** Returns the matcher for a filter. */
export function matcherOf(filter: IndexFilter, { agents, sessions, words, decisions }: Dictionaries): Matcher {
  const originator = numberOf(agents, filter.originator)
  const subagent = numberOf(agents, filter.subagent)
  const party = numberOf(agents, filter.party)
  const session = filter.session_id === undefined ? ANY : numberOf(sessions, filter.session_id)
  const code = numberOf(words, filter.code)
  const statuses = filter.status === undefined ? undefined : statusNumbers(filter.status, words)
  const decided = filter.decision && decidedNumbers(filter.decision, decisions)
  const { from = Number.NEGATIVE_INFINITY, to = Number.POSITIVE_INFINITY } = filter
  const is = (wanted: number, number: number) => wanted === ANY || number === wanted || number === OTHER
  return (block, at) => {
    const created = block.created[at] ?? 0
    if (created < from || created >= to) return false
    const asker = block.originator[at] ?? 0
    const asked = block.subagent[at] ?? 0
    if (!is(originator, asker) || !is(subagent, asked) || (!is(party, asker) && !is(party, asked))) return false
    if (!is(session, block.session[at] ?? 0)) return false
    if (code !== ANY && block.code[at] !== code) return false
    if (statuses && !statuses.has(block.status[at] ?? 0) && !statuses.has(block.ended[at] ?? 0)) return false
    return !decided || decided[block.decisions[at] ?? 0] === 1
  }
}

function numberOf(dictionary: Dictionary, word: string | undefined): number {
  return word === undefined ? ANY : (dictionary.find(word) ?? NOBODY)
}

/** Returns the numbers of statuses that may match. An acknowledged return counts as `processed`, which the index does not know. */
function statusNumbers(status: string, words: Dictionary): Set<number> {
  const may = status === 'processed' ? ['processed', 'returned'] : [status]
  return new Set(may.flatMap((word) => words.find(word) ?? []))
}

/** Returns an array with a 1 at the number of each word that contains a matching decision. */
function decidedNumbers(filter: DecisionFilter, decisions: Dictionary): Uint8Array {
  const found = new Uint8Array(decisions.size)
  found[OTHER] = 1
  for (const [word, number] of decisions.entries()) if (readDecided(word).some((one) => fits(one, filter))) found[number] = 1
  return found
}

type Decided = Pick<RecordedDecision, 'item' | 'verdict' | 'person'>

/** Returns the counting decisions of a pass as one word, which is empty for nearly all passes. */
export function decidedWord(decisions: readonly RecordedDecision[]): string {
  if (decisions.length === 0) return ''
  const counting = decisions.filter(({ counts }) => counts !== false).map(({ item, verdict, person }) => [item, verdict, person])
  return counting.length === 0 ? '' : JSON.stringify(counting.sort())
}

function readDecided(word: string): Decided[] {
  if (word === '') return []
  const decided = JSON.parse(word) as [string, 'approve' | 'deny', string][]
  return decided.map(([item, verdict, person]) => ({ item, verdict, person }))
}

function fits(one: Decided, { item, verdict, person }: DecisionFilter): boolean {
  return (
    (item === undefined || one.item === item) &&
    (verdict === undefined || one.verdict === verdict) &&
    (person === undefined || one.person === person)
  )
}

/** True if a record has a counting decision that matches the filter. */
export function isDecided(decisions: readonly RecordedDecision[], filter: DecisionFilter): boolean {
  return decisions.some((one) => one.counts !== false && fits(one, filter))
}
