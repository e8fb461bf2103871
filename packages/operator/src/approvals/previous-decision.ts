import type { Bus } from '@passover/bus'
import { oneLine } from '@passover/core'
import type { AnsweredDecision, AnsweredPass, InboxItem } from '@passover/schemas'
import { ago, count, nameMarks } from '@passover/sdk/internal/format'
import { Failure } from '../errors.js'

/** Result of a decision: the document for --json, the sentence for people, the exit code. */
export interface DecisionReport {
  document: Record<string, unknown>
  sentence: string
  exit: number
}

type Verdict = 'approve' | 'deny'

const ITEMS: readonly string[] = ['dispatch', 'return', 'apply'] satisfies InboxItem['item'][]

interface DecisionQuery {
  verdict: Verdict
  item?: InboxItem['item'] | undefined
  /** Numbers of the changes to approve. If absent, all. */
  only?: readonly number[] | undefined
}

/** Reports that the item is not pending: another person decided, it expired, or it never existed. Throws Failure E013 or E041. */
export function nothingPending(bus: Bus, pass: AnsweredPass, query: DecisionQuery): DecisionReport {
  const { verdict, item, only } = query
  const { due, row } = pass
  const last = pass.decisions.filter((one) => (item === undefined ? ITEMS.includes(one.item) : one.item === item)).at(-1)
  if (last) return decidedByOther(bus, pass, { item: last.item, verdict, only, standing: last })
  if (due) {
    throw new Failure('E041', `${row.id} does not wait for a decision on item ${item}, but on item ${due.item}`, {
      hint: `passover ${verdict} ${row.id} --item ${due.item}`,
    })
  }
  if (row.code === 'E013' || expired(pass, bus.now())) {
    throw new Failure('E013', `${row.id} was not approved in time, or was refused`, { hint: `passover show ${row.id} shows why`, exit: 6 })
  }
  throw new Failure('E041', `${row.id} does not wait for a decision: its status is ${pass.status}`, {
    hint: 'passover inbox lists pending items',
  })
}

/** Returns true if the record shows an item that has expired. */
function expired({ record }: AnsweredPass, now: number): boolean {
  const awaits = record?.awaits as { expires_at?: unknown } | undefined
  return typeof awaits?.expires_at === 'number' && awaits.expires_at <= now
}

interface PreviousDecision {
  item: string
  verdict: string
  only?: readonly number[] | undefined
  standing: Pick<AnsweredDecision, 'person' | 'time' | 'reason' | 'modifications' | 'self' | 'unverified'> & { verdict: string }
}

/** Reports a decision by another person. The same verdict counts as success, but an approval of different changes does not. */
export function decidedByOther(bus: Bus, pass: AnsweredPass, previous: PreviousDecision): DecisionReport {
  const { item, verdict, standing } = previous
  const same = standing.verdict === verdict && sameChanges(previous)
  const done = standing.verdict === 'approve' ? `approved${takenOf(standing)}` : 'denied'
  const reason = standing.reason ? ` ("${oneLine(standing.reason)}")` : ''
  const { id } = pass.row
  const { self, unverified } = standing
  const marks = { ...(self && { self }), ...(unverified && { unverified }) }
  const document = {
    id,
    item,
    decided: false,
    by: standing.person,
    ...marks,
    verdict: standing.verdict,
    at: standing.time,
    status: pass.status,
  }
  return {
    document: standing.modifications ? { ...document, modifications: standing.modifications } : document,
    sentence: `${standing.person}${nameMarks(marks)} already decided: ${done} ${ago(standing.time, bus.now())}${reason}.`,
    exit: same ? 0 : standing.verdict === 'deny' ? 6 : 1,
  }
}

/** Returns true if the stored decision approved the same changes. It lists the changes by number. */
function sameChanges({ only, standing }: PreviousDecision): boolean {
  const choices = Object.values(standing.modifications ?? {})
  return choices.every((choice, n) => (choice === 'taken') === (only?.includes(n + 1) ?? true))
}

function takenOf({ modifications }: PreviousDecision['standing']): string {
  if (!modifications) return ''
  const choices = Object.values(modifications)
  return ` ${choices.filter((choice) => choice === 'taken').length} of ${count(choices.length, 'change')},`
}
