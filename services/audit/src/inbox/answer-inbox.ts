import { passError } from '@passover/core'
import type { InboxAnswer, InboxItem, Question } from '@passover/schemas'
import { ifIndexed, loadPass } from '../pass/load-pass.js'
import type { Inbox, WaitingEntry } from './inbox.js'
import { findInboxItem, type InboxItemDeps } from './inbox-item.js'
import { InboxPages, parseInboxCursor } from './inbox-pages.js'

export interface InboxDeps extends InboxItemDeps {
  inbox: Inbox
  /** True if the asker may see every pass. */
  seesAll: (name: string) => boolean
}

type InboxQuestion = Extract<Question, { op: 'inbox' }>

const DEFAULT_LIMIT = 50
/** Maximum number of passes checked for one answer, and how many at a time. Few of many entries may still wait. */
const MAX_CHECKED = 400
const CONCURRENCY = 8
/** Maximum number of characters of all items in one answer, which is a single message. */
const MAX_ANSWER_CHARACTERS = 500_000

/**
 * Returns a page of the items that wait for a person now. Originators take turns, and the page is sorted oldest first. The inbox only says which
 * passes to check; the items are built from the stream, by the same rule as in every reader. An asker that is not a person gets the passes that it
 * requested. Returns E005 for a cursor that no page returned.
 */
export async function answerInbox(deps: InboxDeps, asker: string, question: InboxQuestion): Promise<InboxAnswer> {
  const { root_originator, approver, limit = DEFAULT_LIMIT, after } = question
  const place = after === undefined ? undefined : parseInboxCursor(after)
  if (after !== undefined && !place) return { ok: false, error: passError('E005', 'The cursor does not come from a page of the inbox') }
  const filter = { root_originator, ...(deps.seesAll(asker) ? {} : { originator: asker }) }
  const pages = new InboxPages(deps.inbox.queues(filter), place, MAX_CHECKED)
  const { items, looked } = await checkEntries(deps, pages.entries, { approver, limit })
  const next = pages.cursorAfter(looked)
  const left_out = deps.inbox.leftOut(filter)
  const more = next !== undefined || left_out.length > 0
  items.sort((a, b) => a.since - b.since)
  return { ok: true, items, more, ...(next === undefined ? {} : { next }), ...(left_out.length > 0 ? { left_out } : {}) }
}

/** Checks entries until the answer is full. Returns the items that wait, and the number of entries that were handled (`looked`). */
async function checkEntries(
  deps: InboxDeps,
  entries: readonly WaitingEntry[],
  { approver, limit }: { approver: string | undefined; limit: number },
): Promise<{ items: InboxItem[]; looked: number }> {
  const items: InboxItem[] = []
  let room = MAX_ANSWER_CHARACTERS
  for (let at = 0; at < entries.length; at += CONCURRENCY) {
    const found = await Promise.all(entries.slice(at, at + CONCURRENCY).map((entry) => checkEntry(deps, entry)))
    for (const [number, item] of found.entries()) {
      if (!item || (approver !== undefined && !mayDecide(item, approver))) continue
      const size = JSON.stringify(item).length
      if (items.length >= limit || (size > room && items.length > 0)) return { items, looked: at + number }
      room -= size
      items.push(item)
    }
  }
  return { items, looked: entries.length }
}

/**
 * Returns the item if it still waits. Otherwise removes the entry from the inbox and returns `undefined`. The steps of a pass that waits are in the
 * stream. A pass that must be searched for in indexes that are not read yet is not returned, but its entry stays until it is known.
 */
export async function checkEntry(deps: Omit<InboxDeps, 'seesAll'>, entry: WaitingEntry): Promise<InboxItem | undefined> {
  const { last } = await deps.bus.bounds()
  const loaded = await ifIndexed(loadPass(deps, entry.key, { up_to: last }))
  if (!loaded) return undefined
  const due = await findInboxItem(deps, loaded)
  if (due?.item === entry.item) return due
  deps.inbox.drop(entry)
  return undefined
}

/** True if a person may decide about the item, as in judgeDecision: an approver of the policy who takes no part in the pass. */
export function mayDecide({ approvers, chain }: Pick<InboxItem, 'approvers' | 'chain'>, person: string): boolean {
  return !chain.includes(person) && (approvers?.includes(person) ?? true)
}
