import { allDeadLetters, type DeadLetterFilter } from '@passover/operator'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { renderDeadLetters } from './render.js'

export interface DeadLetterListRequest {
  from?: string
  to?: string
  state?: DeadLetterFilter['state']
  limit: number
  before?: number
}

const MAX_NAMED_AGENTS = 10

/** Shows the dead letters, newest first. */
export async function runDlqList(context: Context, { from, to, state, limit, before }: DeadLetterListRequest): Promise<number> {
  const { terminal } = context
  await using bus = await connectPerson(context)
  const filter = {
    ...(from ? { originator: from } : {}),
    ...(to ? { subagent: to } : {}),
    ...(state ? { state } : {}),
    ...(before ? { before } : {}),
  }
  const { letters, next, rest = [], forgotten } = await allDeadLetters(bus, filter, limit)
  if (terminal.mode === 'jsonl') for (const letter of letters) terminal.stream(letter, () => undefined)
  else terminal.show(letters, () => (letters.length === 0 ? 'No dead letters.' : renderDeadLetters(letters, bus.now(), terminal)))
  if (next !== undefined)
    terminal.note(`More than ${limit}${restText(rest)}: continue with --before ${next}, or narrow with --from, --to, --state.`)
  if (forgotten)
    terminal.note('The list omits older dead letters of the agents that have the most: `passover dlq show <id>` finds them by id.')
  return 0
}

/** Lists whose dead letters come next, because those of one agent may fill the page. */
function restText(rest: readonly { originator: string; letters: number }[]): string {
  if (rest.length === 0) return ''
  const some = rest.slice(0, MAX_NAMED_AGENTS).map(({ originator, letters }) => `${letters} of ${originator}`)
  return ` (then ${some.join(', ')}${rest.length > MAX_NAMED_AGENTS ? ` and of ${rest.length - MAX_NAMED_AGENTS} other agents` : ''})`
}
