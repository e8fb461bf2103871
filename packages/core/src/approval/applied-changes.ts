import { type AppliedBody, appliedBody, LIMITS, type PassRecord, type RecordedDecision, SYSTEM } from '@passover/schemas'
import type { PassHistory } from '../journal/pass-history.js'

/** Length of a SHA-256 in hex. */
const DIGEST_LENGTH = 64

/** State of an output's changes in the originator's files, from the `applied` events. */
export interface Application {
  applied: boolean
  /** Time of the newest application in effect. One that a person reported takes precedence over the originator's own. */
  applied_at?: number
  applied_by?: string
  /** `undefined` if nothing was ever applied. */
  record?: NonNullable<PassRecord['application']>
}

interface AppliedBy {
  at: number
  by: string
}

interface EffectiveChange extends AppliedBy {
  sender: string
}

/**
 * Folds the `applied` events of a pass. Each application counts once, however often it was stored; an undo removes what it names. Events that applied
 * nothing, and events of the subagent, are ignored. `applied_by` is the sender or a person whose approval of the changes counts; any other name is
 * replaced by the sender. The originator can neither undo nor repeat an application that a person reported: otherwise it could hide what is in
 * people's files. A person can undo any application.
 *
 * @param known - Digests of the output's modifications; others are left out. If absent, the output is not completely loaded, and any digest is
 * accepted.
 */
export function appliedChanges(
  pass: Pick<PassHistory, 'key' | 'events'>,
  decisions: readonly RecordedDecision[],
  known?: ReadonlySet<string>,
): Application {
  const { originator } = pass.key
  const standing = new Map<string, EffectiveChange>()
  const ever = new Set<string>()
  let last: AppliedBy | undefined
  const approvers = new Set(decisions.filter(approvesChanges).map(({ person }) => person))
  for (const { body, sender } of bodiesOf(pass)) {
    const { applied_at: at, applied_by, digests = [''] } = body
    const by = approvers.has(applied_by) ? applied_by : sender
    if (body.applied.length === 0) continue
    const isPersons = (digest: string) => sender === originator && (standing.get(digest)?.sender ?? originator) !== originator
    const named = body.undone && !body.digests ? [...standing.keys()] : digests
    const own = named.filter(
      (digest) => !isPersons(digest) && (digest === '' || (known ? known.has(digest) : digest.length <= DIGEST_LENGTH)),
    )
    if (own.length === 0 && named.length > 0) continue
    last = { at, by }
    for (const digest of own) {
      // An output has no more changes. Where it is not known, an originator could name others until the record is too large to be stored.
      if (ever.size >= LIMITS.artifacts && !ever.has(digest)) continue
      if (!body.undone) ever.add(digest)
      standing.delete(digest)
      if (!body.undone) standing.set(digest, { at, by, sender })
    }
  }
  const all = [...standing.values()]
  const newest = all.findLast(({ sender }) => sender !== originator) ?? all.at(-1)
  const record = last && { ...last, modifications: modificationsOf(ever, standing) }
  if (!newest) return { applied: false, ...(record && { record }) }
  return { applied: true, applied_at: newest.at, applied_by: newest.by, ...(record && { record }) }
}

function approvesChanges({ item, verdict, counts }: RecordedDecision): boolean {
  return counts === true && item === 'apply' && verdict === 'approve'
}

function bodiesOf({ key, events }: Pick<PassHistory, 'key' | 'events'>): { body: AppliedBody; sender: string }[] {
  const told = new Set<string>()
  return events.flatMap((event) => {
    if (event.kind !== 'applied' || event.sender === key.subagent || event.sender === SYSTEM) return []
    const { data: body } = appliedBody.safeParse(event.body)
    if (!body) return []
    if (body.nonce !== undefined && told.has(body.nonce)) return []
    if (body.nonce !== undefined) told.add(body.nonce)
    return [{ body, sender: event.sender }]
  })
}

function modificationsOf(ever: ReadonlySet<string>, standing: ReadonlyMap<string, EffectiveChange>): Record<string, 'applied' | 'undone'> {
  const named = [...ever].filter((digest) => digest !== '')
  return Object.fromEntries(named.map((digest) => [digest, standing.has(digest) ? ('applied' as const) : ('undone' as const)]))
}
