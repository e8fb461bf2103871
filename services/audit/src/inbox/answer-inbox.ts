import { passError } from '@passover/core'
import type { InboxAnswer, InboxItem, Question } from '@passover/schemas'
import { loadPass } from '../pass/load-pass.js'
import type { Inbox, WaitingEntry } from './inbox.js'
import { findInboxItem, type InboxItemDeps } from './inbox-item.js'
import { InboxPages, parseInboxCursor } from './inbox-pages.js'

export interface InboxDeps extends InboxItemDeps {
  inbox: Inbox
  /** Whether this asker is told about every pass. */
  seesAll: (name: string) => boolean
}

type InboxQuestion = Extract<Question, { op: 'inbox' }>

const DEFAULT_LIMIT = 50
/** Passes looked at for one answer, so many at a time: of many entries hardly one may still wait. */
const MAX_CHECKED = 400
const CONCURRENCY = 8
/** Characters of what is told: an answer is one message. */
const MAX_ANSWER_CHARACTERS = 500_000

/**
 * What waits for a person now: a page on which originators take turns, shown oldest first. The inbox says where to look; what is
 * told is found out from the stream, by the rule that every reader has. Who is no person is told about the passes that it asked for.
 * E005: a cursor that no page gave.
 */
export async function answerInbox(deps: InboxDeps, asker: string, asked: InboxQuestion): Promise<InboxAnswer> {
  const { root_originator, approver, limit = DEFAULT_LIMIT, after } = asked
  const place = after === undefined ? undefined : parseInboxCursor(after)
  if (after !== undefined && !place) return { ok: false, error: passError('E005', 'The cursor is none that a page of the inbox gave') }
  const filter = { root_originator, ...(deps.seesAll(asker) ? {} : { originator: asker }) }
  const turns = new InboxPages(deps.inbox.queues(filter), place, MAX_CHECKED)
  const { items, looked } = await checkEntries(deps, turns.entries, { approver, limit })
  const next = turns.cursorAfter(looked)
  const left_out = deps.inbox.leftOut(filter)
  const more = next !== undefined || left_out.length > 0
  items.sort((a, b) => a.since - b.since)
  return { ok: true, items, more, ...(next === undefined ? {} : { next }), ...(left_out.length > 0 ? { left_out } : {}) }
}

/** What is due of these, as much as one answer has room for; `looked`: how many of them it needs no more. */
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

/** Undefined: it waits no longer, and is looked at no more. */
export async function checkEntry(deps: Omit<InboxDeps, 'seesAll'>, entry: WaitingEntry): Promise<InboxItem | undefined> {
  const { last } = await deps.bus.bounds()
  const loaded = await loadPass(deps, entry.key, { up_to: last })
  const due = await findInboxItem(deps, loaded)
  if (due?.item === entry.item) return due
  deps.inbox.drop(entry)
  return undefined
}

/** As judgeDecision has it: an approver of the policy, who takes no part in the pass. */
export function mayDecide({ approvers, chain }: Pick<InboxItem, 'approvers' | 'chain'>, person: string): boolean {
  return !chain.includes(person) && (approvers?.includes(person) ?? true)
}
