import { everyLetter, type LetterFilter } from '@passover/sdk/people'
import { connectPerson } from '../client.js'
import type { Context } from '../context.js'
import { renderLetters } from '../render/dead-letters.js'

export interface ListRequest {
  from?: string
  to?: string
  state?: LetterFilter['state']
  limit: number
  before?: number
}

/** Shows what is dead, newest first. */
export async function runList(context: Context, { from, to, state, limit, before }: ListRequest): Promise<number> {
  const { terminal } = context
  await using bus = await connectPerson(context)
  const filter = {
    ...(from ? { originator: from } : {}),
    ...(to ? { subagent: to } : {}),
    ...(state ? { state } : {}),
    ...(before ? { before } : {}),
  }
  const { letters, more } = await everyLetter(bus, filter, limit)
  if (terminal.mode === 'jsonl') for (const letter of letters) terminal.stream(letter, () => undefined)
  else terminal.show(letters, () => (letters.length === 0 ? 'Nothing is dead.' : renderLetters(letters, bus.now(), terminal)))
  const last = letters.at(-1)
  if (more && last) terminal.note(`More than ${limit}: go on with --before ${last.sequence}, or narrow with --from, --to, --state.`)
  return 0
}
