import type { InboxAnswer, InboxItem, Question } from '@passover/schemas'
import { cursorOf, type Inbox, type Waiting } from './inbox.js'
import { type DueDeps, dueOf } from './inbox-item.js'
import { loadPass } from './load.js'

export interface InboxDeps extends DueDeps {
  inbox: Inbox
  /** Whether this asker is told about every pass. */
  seesAll: (name: string) => boolean
}

type Asked = Extract<Question, { op: 'inbox' }>

const DEFAULT_LIMIT = 50
/** Passes looked at for one answer, so many at a time: of many entries hardly one may still wait. */
const MOST_LOOKS = 400
const AT_A_TIME = 8
/** Characters of what is told: an answer is one message. */
const ROOM = 500_000

/**
 * What waits for a person now, oldest first (DESIGN §3). The inbox says where to look; what is told is found out from the stream,
 * by the rule that every reader has. Who is no person is told about the passes that it asked for.
 */
export async function answerInbox(deps: InboxDeps, asker: string, asked: Asked): Promise<InboxAnswer> {
  const { root_originator, approver, limit = DEFAULT_LIMIT, after } = asked
  const own = deps.seesAll(asker) ? {} : { originator: asker }
  const listed = deps.inbox.list({ root_originator, ...own })
  const rest = after === undefined ? listed : listed.filter((entry) => cursorOf(entry) > after)
  const items: InboxItem[] = []
  const seen = { last: undefined as string | undefined, room: ROOM }
  const answer = (more: boolean): InboxAnswer => ({ ok: true, items, more, ...(more && seen.last ? { next: seen.last } : {}) })
  for (let at = 0; at < rest.length && at < MOST_LOOKS; at += AT_A_TIME) {
    const some = rest.slice(at, at + AT_A_TIME)
    const found = await Promise.all(some.map((entry) => lookAt(deps, entry)))
    for (const [number, item] of found.entries()) {
      const shown = item && (approver === undefined || mayDecide(item, approver)) ? item : undefined
      const size = shown ? JSON.stringify(shown).length : 0
      if (shown && (items.length >= limit || (size > seen.room && items.length > 0))) return answer(true)
      seen.room -= size
      if (shown) items.push(shown)
      const entry = some[number]
      seen.last = entry && cursorOf(entry)
    }
  }
  return answer(rest.length > MOST_LOOKS)
}

/** Undefined: it waits no longer, and is looked at no more. */
export async function lookAt(deps: Omit<InboxDeps, 'seesAll'>, entry: Waiting): Promise<InboxItem | undefined> {
  const { last } = await deps.bus.bounds()
  const loaded = await loadPass(deps, entry.key, { up_to: last })
  const due = await dueOf(deps, loaded)
  if (due?.item === entry.item) return due
  deps.inbox.drop(entry)
  return undefined
}

/** As judgeDecision has it: an approver of the policy, who takes no part in the pass. */
export function mayDecide({ approvers, chain }: Pick<InboxItem, 'approvers' | 'chain'>, person: string): boolean {
  return !chain.includes(person) && (approvers?.includes(person) ?? true)
}
