import type { Bus } from '@passover/bus'
import { type AnsweredDecision, type AnsweredPass, sha256 } from '@passover/schemas'
import { askPasses, findPass, type PassRef } from './ask.js'
import { decide, type Standing } from './decide.js'
import { ago } from './duration.js'
import { CliFailure } from './failure.js'
import { oneLine } from './text.js'

export interface DueOptions {
  ref: PassRef
  verdict: 'approve' | 'deny'
  reason?: string | undefined
}

/** What became of it: the document for --json, the sentence for people, the exit code. */
export interface DueDecided {
  document: Record<string, unknown>
  sentence: string
  exit: number
}

/** An item that waits for a person, with the digest of what is decided about. */
type Due = { item: 'dispatch' | 'return'; digest: string }

const SETTLE_MS = 3_000
const POLL_MS = 100

/**
 * Decides whatever a pass waits for: its dispatch while it is held, else the release of its return.
 * CliFailure E041: it waits for nothing; E013 (exit 6): the approval has expired, (exit 4): this person
 * takes part in the pass; nothing is stored then.
 */
export async function decideDue(bus: Bus, { ref, verdict, reason }: DueOptions): Promise<DueDecided> {
  const pass = await findPass(bus, ref)
  const due = dueItem(pass)
  if (!due) return nothingDue(bus, pass, verdict)
  const before = pass.decisions.find(({ item }) => item === due.item)
  if (before) return faster(bus, pass, { item: due.item, verdict, standing: before })
  refuseOwn(pass, bus.identity)
  const counts = (standing: Standing) => decisionCounts(bus, pass, { item: due.item, standing })
  const decided = await decide(bus, { key: pass.key, ...due, verdict, reason }, counts)
  if (decided.kind === 'lost') return faster(bus, pass, { item: due.item, verdict, standing: decided.standing })
  return settled(bus, pass, { item: due.item, verdict, sequence: decided.sequence })
}

/** Nobody decides about a pass of their own: a decision by one of its agents never counts (DESIGN §2 Identity). */
export function refuseOwn({ key, row, control }: Pick<AnsweredPass, 'key' | 'row' | 'control'>, person: string): void {
  const above: unknown = control?.ancestors
  if (person !== key.originator && person !== key.subagent && !(Array.isArray(above) && above.includes(person))) return
  throw new CliFailure('E013', `${person} takes part in ${row.id}, and nobody decides about a pass of their own`, {
    hint: `somebody else decides: passover approve ${row.id} --as <person>; end it: passover cancel ${row.id}`,
    exit: 4,
  })
}

function dueItem(pass: AnsweredPass): Due | undefined {
  if (pass.status === 'held' && pass.digest) return { item: 'dispatch', digest: pass.digest }
  if (pass.status === 'awaiting_release' && pass.return) return { item: 'return', digest: sha256(pass.return.data) }
  return undefined
}

function nothingDue(bus: Bus, pass: AnsweredPass, verdict: 'approve' | 'deny'): DueDecided {
  const last = pass.decisions.filter(({ item }) => item === 'dispatch' || item === 'return').at(-1)
  if (last) return faster(bus, pass, { item: last.item, verdict, standing: last })
  if (pass.row.code === 'E013')
    throw new CliFailure('E013', `${pass.row.id} was not approved in time, or was refused`, {
      hint: `passover show ${pass.row.id} says why`,
      exit: 6,
    })
  throw new CliFailure('E041', `${pass.row.id} waits for no decision: it is ${pass.status}`, {
    hint: 'passover list --status held shows what waits',
  })
}

/** Somebody else decided; the same answer is as good as one's own. */
function faster(
  bus: Bus,
  pass: AnsweredPass,
  {
    item,
    verdict,
    standing,
  }: { item: string; verdict: string; standing: Pick<AnsweredDecision, 'person' | 'time' | 'reason'> & { verdict: string } },
): DueDecided {
  const same = standing.verdict === verdict
  const done = standing.verdict === 'approve' ? 'approved' : 'denied'
  const reason = standing.reason ? ` ("${oneLine(standing.reason)}")` : ''
  const exit = same ? 0 : standing.verdict === 'deny' ? 6 : 1
  return {
    document: {
      id: pass.row.id,
      item,
      decided: false,
      by: standing.person,
      verdict: standing.verdict,
      at: standing.time,
      status: pass.status,
    },
    sentence: `${standing.person} was faster: ${done} ${ago(standing.time, bus.now())}${reason}.`,
    exit,
  }
}

/** Whether a decision that stands in the stream counts; the audit is asked again until it has read that far. */
async function decisionCounts(bus: Bus, pass: AnsweredPass, { item, standing }: { item: string; standing: Standing }): Promise<boolean> {
  const now = await until(bus, pass, (read) => read.row.last_sequence >= standing.sequence)
  return now.decisions.some((decision) => decision.item === item && decision.sequence === standing.sequence)
}

/** The decision stands: what it did is awaited for a moment, so that the next command sees it. */
async function settled(
  bus: Bus,
  pass: AnsweredPass,
  { item, verdict, sequence }: { item: string; verdict: string; sequence: number },
): Promise<DueDecided> {
  const now = await until(
    bus,
    pass,
    (read) =>
      read.row.last_sequence >= sequence &&
      (read.status !== pass.status || !read.decisions.some((decision) => decision.sequence === sequence)),
  )
  const counted = now.decisions.some((decision) => decision.sequence === sequence)
  const { id } = pass.row
  const document = { id, item, decided: counted, by: bus.identity, verdict, status: now.status }
  if (!counted && now.row.last_sequence >= sequence) {
    return {
      document,
      sentence: `Stored, but it does not count: ${bus.identity} is no person to this server, or the policy names other approvers.`,
      exit: 4,
    }
  }
  const what = item === 'dispatch' ? 'the start' : 'the release'
  return {
    document,
    sentence: `${verdict === 'approve' ? 'Approved' : 'Denied'} ${what} of ${id} as ${bus.identity}; it is now ${now.status}.`,
    exit: 0,
  }
}

async function until(bus: Bus, pass: AnsweredPass, done: (pass: AnsweredPass) => boolean): Promise<AnsweredPass> {
  const { originator, subagent, id } = pass.key
  const deadline = Date.now() + SETTLE_MS
  for (;;) {
    const [now] = await askPasses(bus, { id, from: originator, to: subagent }, false)
    if (now && (done(now) || Date.now() > deadline)) return now
    if (!now && Date.now() > deadline) return pass
    await new Promise((again) => setTimeout(again, POLL_MS))
  }
}
