import { type Bus, decode, type Stored } from '@passover/bus'
import type { Fact, PassKey } from '@passover/schemas'
import { connectPerson } from './client.js'
import type { Context } from './context.js'
import { clock } from './duration.js'
import { sayEntry } from './render/timeline.js'
import { stopSignals } from './signals.js'
import { oneLine } from './text.js'

export interface WatchRequest {
  id?: string
  from?: string
  to?: string
  count?: number
  all?: true
}

/** One thing that happened, as `watch` prints it. */
export interface Happening {
  sequence: number
  /** Server ms. */
  time: number
  kind: string
  originator?: string
  subagent?: string
  id?: string
  by?: string
  attempt?: number
  detail?: string
}

/** Follows the stream until Ctrl-C, or until so many were seen. */
export async function runWatch(context: Context, request: WatchRequest): Promise<number> {
  await using bus = await connectPerson(context)
  using signals = stopSignals(() => {})
  const { terminal } = context
  const seen: Happening[] = []
  let shown = 0
  let enough = () => {}
  const counted = new Promise<void>((resolve) => {
    enough = resolve
  })
  const from = request.all ? 1 : (await bus.bounds()).last + 1
  await using _reader = await bus.follow({ from }, (stored, fact) => {
    const happening = happeningOf(stored, fact, bus)
    if (!happening || !wanted(happening, request) || shown === request.count) return
    shown += 1
    if (terminal.mode === 'json') seen.push(happening)
    else terminal.stream(happening, () => line(happening, terminal.colors.dim))
    if (shown === request.count) enough()
  })
  if (terminal.mode === 'human' && process.stderr.isTTY) terminal.note('Watching; Ctrl-C ends it.')
  const why = await Promise.race([signals.first, counted, bus.closed])
  if (terminal.mode === 'json') terminal.show(seen, () => '')
  return why instanceof Error ? 5 : 0
}

function wanted(happening: Happening, { id, from, to }: WatchRequest): boolean {
  if (id !== undefined && !happening.id?.startsWith(id)) return false
  if (from !== undefined && happening.originator !== from) return false
  return to === undefined || happening.subagent === to
}

function line(happening: Happening, dim: (text: string) => string): string {
  const { time, kind, originator, subagent, id } = happening
  const who = originator && subagent ? `${originator} → ${subagent}` : ''
  return `${dim(clock(time))}  ${kind.padEnd(11)} ${who}  ${id ?? ''}  ${sayEntry({ kind, by: happening.by ?? '', attempt: happening.attempt, detail: happening.detail })}`
}

/** What a stored message means to a person; undefined for what is no event of a pass (acknowledgments and the like). */
export function happeningOf(stored: Stored, fact: Fact, bus: Pick<Bus, 'subjects'>): Happening | undefined {
  const base = { sequence: stored.sequence, time: stored.time }
  const of = (key: PassKey) => ({ ...base, originator: key.originator, subagent: key.subagent, id: key.id })
  switch (fact.type) {
    case 'request':
      return {
        ...base,
        kind: 'request',
        originator: fact.originator,
        subagent: fact.subagent,
        by: fact.originator,
        ...(fact.id ? { id: fact.id } : {}),
      }
    case 'step':
      return {
        ...of(fact.key),
        kind: fact.kind,
        by: fact.by,
        ...(fact.attempt ? { attempt: fact.attempt } : {}),
        ...detailOf(fact.code ?? fact.status),
      }
    case 'decision':
      return { ...of(fact.key), kind: 'decision', by: fact.person, detail: `${fact.item} ${fact.verdict ?? '?'}` }
    case 'event':
      return { ...of(fact.key), kind: fact.kind, by: fact.sender, ...detailOf(messageIn(stored)) }
    case 'advisory':
      return undefined
    case 'other': {
      const parsed = bus.subjects.parse(stored.subject)
      return parsed.kind === 'agent' || parsed.kind === 'policy' ? { ...base, kind: parsed.kind, by: parsed.person } : undefined
    }
  }
}

function detailOf(detail: string | undefined): { detail?: string } {
  return detail === undefined ? {} : { detail: oneLine(detail, 300) }
}

/** The text of an event that has one: progress, cancel, violation. */
function messageIn(stored: Stored): string | undefined {
  const decoded = decode(stored.data, stored.headers.get('Content-Type'))
  if (!decoded.ok || typeof decoded.value !== 'object' || decoded.value === null) return undefined
  const { message, reason, what } = decoded.value as Record<string, unknown>
  return [message, reason, what].find((text) => typeof text === 'string')
}
