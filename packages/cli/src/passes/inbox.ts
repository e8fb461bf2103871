import { askInbox, marked } from '@passover/operator'
import { revokedAgents } from '../auth/find-keys.js'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { noteUnknownPerson } from '../doctor/audit.js'
import { itemDocument, renderInbox } from '../render/inbox.js'

export interface InboxRequest {
  from?: string
  mine?: true
  limit: number
}

/** Lists pending items, oldest first. If not all fit, agents take turns. */
export async function runInbox(context: Context, { from, mine, limit }: InboxRequest): Promise<number> {
  const { terminal, person } = context
  await using bus = await connectPerson(context)
  const filter = { limit, ...(from ? { root_originator: from } : {}), ...(mine ? { approver: person } : {}) }
  const { items: waiting, next, left_out = [] } = await askInbox(bus, filter)
  const revoked = revokedAgents(context.server())
  const items = waiting.map((item) => marked(item, revoked))
  if (terminal.mode === 'jsonl') for (const item of items) terminal.stream(itemDocument(item), () => undefined)
  else {
    const view = { colors: terminal.colors, now: bus.now(), person }
    terminal.show(items.map(itemDocument), () => (items.length === 0 ? 'No items wait for a decision.' : renderInbox(items, view)))
  }
  if (items.length === 0) await noteUnknownPerson(bus, terminal)
  if (next !== undefined) terminal.note(`More items are pending; raise --limit, or filter with --from or --mine.`)
  for (const name of new Set(left_out.map(({ originator }) => originator)))
    terminal.note(
      `The inbox is full and does not list all pending items of ${name}; to see them: \`passover list --from ${name} --status held\`.`,
    )
  return 0
}
