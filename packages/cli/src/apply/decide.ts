import type { Bus } from '@passover/bus'
import type { ModificationChoice } from '@passover/core'
import { askNameVerification, askPasses, decide, refuseOwnDecision, type StoredDecision, verifyStored } from '@passover/operator'
import { type AnsweredDecision, type AnsweredPass, sha256 } from '@passover/schemas'
import { nameMarks } from '@passover/sdk/internal/format'
import { CliFailure } from '../errors.js'
import { ago } from '../terminal/duration.js'

const SETTLE_TIMEOUT_MS = 3_000
const POLL_INTERVAL_MS = 50

/**
 * Stores this person's decision on which modifications of a return are applied, bound to its stored bytes, and returns it once the audit
 * service counts it.
 *
 * @throws CliFailure E013 if somebody else decided first (exit 6 if they denied), the approval came too late (6), or the decision does not
 * count (4)
 */
export async function decideApply(
  bus: Bus,
  pass: AnsweredPass,
  { modifications, despite_revocation }: { modifications: ModificationChoice; despite_revocation?: boolean | undefined },
): Promise<AnsweredDecision> {
  refuseOwnDecision(pass, bus.identity)
  refuseExpired(bus, pass)
  const digest = pass.return ? sha256(pass.return.data) : ''
  await verifyStored(bus, pass, { id: pass.row.id, digest })
  const verdict = { key: pass.key, item: 'apply', verdict: 'approve' as const, digest, traceparent: pass.traceparent }
  const counts = async (standing: StoredDecision) => (await counted(bus, pass, standing.sequence))?.sequence === standing.sequence
  const decided = await decide(bus, { ...verdict, modifications, despite_revocation }, counts)
  if (decided.kind === 'lost') throw decidedEarlierError(bus, pass, { ...decided.standing, ...(await askNameVerification(bus)) })
  const decision = await counted(bus, pass, decided.sequence)
  if (decision?.sequence === decided.sequence) return decision
  if (decision) throw decidedEarlierError(bus, pass, decision)
  throw new CliFailure('E013', `your decision was stored but is not valid: ${bus.identity} is not a registered approver`, {
    hint: `passover show ${pass.row.id} shows why; another person must decide`,
    exit: 4,
  })
}

function refuseExpired(bus: Bus, { record, row }: AnsweredPass): void {
  const awaits = record?.awaits as { item?: string; expires_at?: number } | undefined
  if (awaits?.item !== 'apply' || awaits.expires_at === undefined || bus.now() < awaits.expires_at) return
  throw new CliFailure(
    'E013',
    `the changes of ${row.id} were not approved in time: the approval expired ${ago(awaits.expires_at, bus.now())}`,
    { hint: 'request the work again', exit: 6 },
  )
}

/** Returns the decision on the application that counts, once the audit service has processed the stream up to `sequence`. */
async function counted(bus: Bus, { key }: AnsweredPass, sequence: number): Promise<AnsweredDecision | undefined> {
  const deadline = Date.now() + SETTLE_TIMEOUT_MS
  for (;;) {
    const [now] = await askPasses(bus, { id: key.id, from: key.originator, to: key.subagent })
    if (now && (now.row.last_sequence >= sequence || Date.now() > deadline)) return now.decisions.find(({ item }) => item === 'apply')
    if (Date.now() > deadline) return undefined
    await new Promise((again) => setTimeout(again, POLL_INTERVAL_MS))
  }
}

type EarlierDecision = Pick<AnsweredDecision, 'person' | 'time' | 'self' | 'unverified'> & { verdict: string }

function decidedEarlierError(bus: Bus, { row }: AnsweredPass, standing: EarlierDecision): CliFailure {
  const { person, verdict, time } = standing
  const did = verdict === 'deny' ? 'denied' : 'approved'
  return new CliFailure(
    'E013',
    `${person}${nameMarks(standing)} already ${did} the changes of ${row.id} ${ago(time, bus.now())}; nothing was written`,
    {
      hint:
        verdict === 'deny' ? `passover show ${row.id} shows why` : `passover apply ${row.id} applies the changes that ${person} approved`,
      exit: verdict === 'deny' ? 6 : 1,
    },
  )
}
