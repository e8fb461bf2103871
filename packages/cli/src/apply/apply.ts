import { type Bus, nodeRandom, serverClock } from '@passover/bus'
import { chooseModifications, type NumberedModification, type Tracing } from '@passover/core'
import { findPass, type KnownRevoked, markedPass, type PassRef, readResult, refuseOwnDecision, refuseRevoked } from '@passover/operator'
import { type AnsweredDecision, type AnsweredPass, type ShownFile, sha256, type WorkOutput } from '@passover/schemas'
import type { Applied } from '@passover/sdk'
import {
  type Accepts,
  type ApplyContext,
  type AuthorizationInput,
  applyBlockedReason,
  applySelected,
  authorizationInput,
  authorizeApply,
  interruptedSets,
  notShown,
  type Plan,
  planSelected,
  type RecoveredSet,
  recoverDirectory,
  reviewable,
  reviewDigest,
  showTaken,
} from '@passover/sdk/internal'
import { nameMarks } from '@passover/sdk/internal/format'
import { CliFailure, DECLINED, usage } from '../errors.js'
import { confirmAction } from '../input/confirm.js'
import { partiesText } from '../render/inbox.js'
import type { Terminal } from '../terminal/terminal.js'
import { count } from '../terminal/text.js'
import { decideApply } from './decide.js'
import { renderApplied, renderInterrupted, renderPlan, renderSettled } from './render.js'

export interface ApplyRequest extends PassRef, Accepts {
  directory: string
  /** Numbers of the output's modifications, such as `1,3`. */
  only?: string | undefined
  dryRun?: boolean | undefined
  yes?: boolean | undefined
  /** True to approve even if credentials of an agent in the chain were revoked. */
  despiteRevocation?: boolean | undefined
  /** Revocations known here that the audit service may not know. */
  revoked: KnownRevoked
  /** Receives the span of the application. */
  tracing?: Tracing
}

/** A pass and everything that is determined before the person is asked. */
interface Ready {
  pass: AnsweredPass
  input: AuthorizationInput
  taken: readonly NumberedModification[]
  plan: Plan
  /** Combined effect of the selected changes on each file. */
  files: ShownFile[]
  /** Digest of the changes shown, as `passover approve --digest` takes it. */
  digest: string
}

/**
 * Recovers what a killed process left in the directory, shows what a pass would change, asks, stores an approval if there is no decision
 * yet, and applies exactly the selected changes: all of them or none. With `--dry-run` it changes and recovers nothing.
 *
 * @returns 0 if the changes are applied, now or earlier; 1 on conflicts or if the person says no
 * @throws {CliFailure} E042 if nothing is decided and there is no terminal to ask at, or if changes cannot be shown as a diff; E041; E013
 * (exit 6 if the changes were denied)
 */
export async function applyPass(bus: Bus, terminal: Terminal, given: ApplyRequest): Promise<number> {
  const { tracing, directory } = given
  const deps = { bus, clock: serverClock(bus), random: nodeRandom, ...(tracing && { tracing }) }
  const applyContext: ApplyContext = { deps, as: 'person', directory }
  const settled = given.dryRun ? [] : await recoverDirectory(applyContext)
  const interrupted = given.dryRun ? await interruptedSets(directory) : []
  for (const line of [...renderSettled(settled, terminal.noteColors), ...renderInterrupted(interrupted, terminal.noteColors)])
    terminal.note(line)
  const ready = await prepare(bus, given)
  const { digest, files } = ready
  const document = { id: ready.pass.row.id, directory, digest, modifications: modificationsOf(ready), files, settled }
  const stopped = ready.plan.items.some(({ verdict }) => verdict === 'conflict' || verdict === 'refused')
  const view = { colors: terminal.colors, all: ready.input.all }
  if (given.dryRun || stopped) {
    const doubt = given.dryRun ? { dry_run: true, interrupted } : {}
    terminal.show({ ...document, ...doubt, applied: [], rejected: rejectedOf(ready) }, () => renderPlan(ready, { ...view, digest }))
    return stopped ? 1 : 0
  }
  if (terminal.mode === 'human') terminal.stream(null, () => renderPlan(ready, view))
  if (!ready.input.decision) {
    if (!given.despiteRevocation) refuseRevoked(ready.pass, 'apply')
    refuseUnshown(ready, given)
  }
  const question = given.yes ? undefined : applyQuestion(ready, directory)
  if (question && terminal.interactive && !(await confirmAction(question))) return DECLINED
  if (!given.yes && !terminal.interactive && !ready.input.decision) throw undecided(ready, bus.identity)
  const decision = await decisionOf(bus, ready, given.despiteRevocation)
  const { input, taken } = ready
  const applied_by = decision.person
  const applied = await applySelected(applyContext, { key: input.key, all: input.all, taken, applied_by, binary: given.binary ?? false })
  const done = { ...applied, settled: [...settled, ...newSettled(settled, applied.settled)] }
  terminal.show({ ...document, decision: brief(decision), ...done }, () =>
    renderApplied(
      { ...applied, settled: newSettled(settled, applied.settled) },
      { ...view, id: ready.pass.row.id, by: `${applied_by}${nameMarks(decision)}` },
    ),
  )
  return exitCodeOf(applied)
}

/** Returns the recoveries that were not reported before. Each recovery lists files with foreign changes again. */
function newSettled(before: readonly RecoveredSet[], after: readonly RecoveredSet[]): RecoveredSet[] {
  const known = new Set(before.map((one) => `${one.kind} ${one.id} ${one.outcome}`))
  return after.filter((one) => !known.has(`${one.kind} ${one.id} ${one.outcome}`))
}

/** Applying undecided changes approves them, so all of them must have been shown. */
function refuseUnshown({ pass, files }: Ready, accepts: Accepts): void {
  const hidden = notShown(files, accepts)
  if (hidden) throw usage(hidden.why, `to approve and apply it anyway: passover apply ${pass.row.id} --${hidden.flag}`)
}

/** Returns the question for the person: about writing, deciding, or both. Returns `undefined` if neither is left to do. */
function applyQuestion({ plan, input, taken }: Ready, directory: string): string | undefined {
  const changes = plan.changes.length
  if (changes > 0) return `Apply ${count(changes, 'change')} in ${directory}?`
  return input.decision ? undefined : `Approve ${count(taken.length, 'change')}? The files in ${directory} already have this content.`
}

/** Applying undecided changes approves them, so without a terminal to ask at this is an error instead of an assumed yes. */
function undecided({ pass, input }: Ready, person: string): CliFailure {
  refuseOwnDecision(pass, person)
  const { id } = pass.row
  return usage(
    `${count(input.all.length, 'change')} of ${id} ${input.all.length === 1 ? 'has' : 'have'} no decision yet, and there is no terminal to ask for confirmation`,
    `to review them: passover apply ${id} ${partiesText(pass.row)} --dry-run; to approve and apply them: passover apply ${id} ${partiesText(pass.row)} --yes`,
  )
}

async function prepare(bus: Bus, given: ApplyRequest): Promise<Ready> {
  const pass = markedPass(await findPass(bus, given), given.revoked)
  const output = await outputOf(bus, pass)
  const data = pass.return?.data ?? new Uint8Array()
  const input = authorizationInput(pass, { data }, output)
  if (!reviewable(output.artifacts)) throw new CliFailure('E021', `the proposed changes of ${pass.row.id} cannot be read`)
  const never = applyBlockedReason(input)
  if (never) throw new CliFailure('E013', `${pass.row.id}: ${never.message}`, releaseHint(pass))
  const only = numbersIn(given.only, input.all)
  const taken = input.decision ? decidedOn(input, only) : input.all.filter(({ number }) => !only || only.includes(number))
  if (input.all.length === 0)
    throw new CliFailure('E041', `${pass.row.id} proposes no changes to files`, { hint: `passover show ${pass.row.id}` })
  const plan = await planSelected(given.directory, { taken, binary: given.binary ?? false })
  return { pass, input, taken, plan, files: showTaken(taken, plan, { whole: given.whole }), digest: reviewDigest(sha256(data), taken) }
}

async function outputOf(bus: Bus, pass: AnsweredPass): Promise<WorkOutput> {
  const result = await readResult(bus, pass)
  if (result && 'output' in result && Array.isArray(result.output.artifacts)) return result.output as WorkOutput
  const { id } = pass.row
  if (result && 'unreadable' in result) throw new CliFailure('E021', `the return of ${id} cannot be read: ${result.unreadable}`)
  throw new CliFailure('E041', `${id} has no output to apply: its status is ${pass.status}`, { hint: `passover show ${id} shows details` })
}

function releaseHint({ row, status }: AnsweredPass): { hint: string; exit: number } {
  const waits = status === 'awaiting_release'
  return { hint: `passover ${waits ? 'approve' : 'show'} ${row.id}`, exit: waits ? 4 : 6 }
}

function numbersIn(only: string | undefined, all: readonly NumberedModification[]): number[] | undefined {
  if (only === undefined) return undefined
  const numbers = only.split(',').map((word) => (/^\s*[1-9]\d{0,5}\s*$/.test(word) ? Number(word) : Number.NaN))
  if (numbers.some(Number.isNaN)) throw usage(`--only: expected numbers like 1,3, got "${only}"`)
  const { unknown } = chooseModifications(all, numbers)
  if (unknown.length > 0) throw usage(`--only: there is no change ${unknown.join(', ')}; the pass has changes 1 to ${all.length}`)
  return numbers
}

function decidedOn(input: AuthorizationInput, only: number[] | undefined): readonly NumberedModification[] {
  const allowed = authorizeApply(input, only)
  if (allowed.ok) return allowed.taken
  throw allowed.error
}

async function decisionOf(bus: Bus, { pass, input, taken }: Ready, despite_revocation: boolean | undefined): Promise<AnsweredDecision> {
  if (input.decision) return input.decision
  const numbers = taken.map(({ number }) => number)
  return decideApply(bus, pass, { ...chooseModifications(input.all, numbers), despite_revocation })
}

function brief({ person, verdict, time, sequence, self, unverified }: AnsweredDecision): object {
  return { person, verdict, time, sequence, ...(self && { self }), ...(unverified && { unverified }) }
}

function rejectedOf({ input, taken }: Ready): string[] {
  return input.all.filter((one) => !taken.includes(one)).map(({ modification }) => modification.path)
}

/** Returns every modification with its planned outcome, for `--json`. Diffs are listed by file. */
function modificationsOf({ input, plan }: Ready): object[] {
  return input.all.map(({ number, digest, modification: { path, operation = 'modify' } }) => {
    const planned = plan.items.find((item) => item.number === number)
    return planned ?? { number, digest, path, operation, verdict: 'rejected' }
  })
}

function exitCodeOf({ conflicts }: Applied): number {
  return conflicts.length > 0 ? 1 : 0
}
