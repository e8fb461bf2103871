import type { Bus } from '@passover/bus'
import type { AnsweredDecision, AnsweredPass, InboxItem } from '@passover/schemas'
import { ago } from './duration.js'
import { CliFailure } from './failure.js'
import { oneLine } from './text.js'

/** What became of it: the document for --json, the sentence for people, the exit code. */
export interface DueDecided {
  document: Record<string, unknown>
  sentence: string
  exit: number
}

type Verdict = 'approve' | 'deny'

const ITEMS: readonly string[] = ['dispatch', 'return', 'apply'] satisfies InboxItem['item'][]

/** Nothing (or another item) waits: somebody decided, it expired, or there was never anything. CliFailure E013, E041. */
export function nothingDue(bus: Bus, pass: AnsweredPass, asked: { verdict: Verdict; item?: InboxItem['item'] | undefined }): DueDecided {
  const { verdict, item } = asked
  const { due, row } = pass
  const last = pass.decisions.filter((one) => (item === undefined ? ITEMS.includes(one.item) : one.item === item)).at(-1)
  if (last) return faster(bus, pass, { item: last.item, verdict, standing: last })
  if (due) {
    throw new CliFailure('E041', `nothing of item ${item} waits in ${row.id}: it waits for item ${due.item}`, {
      hint: `passover ${verdict} ${row.id} --item ${due.item}`,
    })
  }
  if (row.code === 'E013' || expired(pass, bus.now())) {
    throw new CliFailure('E013', `${row.id} was not approved in time, or was refused`, {
      hint: `passover show ${row.id} says why`,
      exit: 6,
    })
  }
  throw new CliFailure('E041', `${row.id} waits for no decision: it is ${pass.status}`, { hint: 'passover inbox shows what waits' })
}

/** It waits by its record, and the time is over. */
function expired({ record }: AnsweredPass, now: number): boolean {
  const awaits = record?.awaits as { expires_at?: unknown } | undefined
  return typeof awaits?.expires_at === 'number' && awaits.expires_at <= now
}

interface Before {
  item: string
  verdict: string
  standing: Pick<AnsweredDecision, 'person' | 'time' | 'reason'> & { verdict: string }
}

/** Somebody else decided; the same answer is as good as one's own. */
export function faster(bus: Bus, pass: AnsweredPass, { item, verdict, standing }: Before): DueDecided {
  const same = standing.verdict === verdict
  const done = standing.verdict === 'approve' ? 'approved' : 'denied'
  const reason = standing.reason ? ` ("${oneLine(standing.reason)}")` : ''
  const { id } = pass.row
  const document = { id, item, decided: false, by: standing.person, verdict: standing.verdict, at: standing.time, status: pass.status }
  return {
    document,
    sentence: `${standing.person} was faster: ${done} ${ago(standing.time, bus.now())}${reason}.`,
    exit: same ? 0 : standing.verdict === 'deny' ? 6 : 1,
  }
}
