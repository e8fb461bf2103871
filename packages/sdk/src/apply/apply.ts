import { modificationsIn, PassOverError } from '@passover/core'
import { type AnsweredPass, HEADER, passAnswer, passError, type WorkControl, type WorkOutput } from '@passover/schemas'
import { z } from 'zod'
import { checkOptions } from '../errors/option-errors.js'
import type { StoredReturn } from '../journal/poll.js'
import { decodeReturn } from '../messages/decode-return.js'
import { type Deps, sleep } from '../runtime/dependencies.js'
import { type Applied, applySelected, type ToApply } from './apply-selected.js'
import { type AuthorizationInput, applyDecision, authorizeApply } from './authorize.js'
import { type ApplyContext, recoverDirectory } from './journal/recover.js'

/** Options of `apply`. */
export interface ApplyOptions {
  /**
   * Directory of the files to change. No file outside of it is written.
   * @defaultValue The directory of the agent.
   */
  directory?: string | undefined
  /**
   * Numbers of the modifications to apply, from 1, as `passover show` prints them. Modifications that are not approved are never
   * applied.
   * @defaultValue All approved modifications.
   */
  only?: readonly number[] | undefined
  /**
   * True to also apply binary content.
   * @defaultValue `false`
   */
  binary?: boolean | undefined
  /**
   * The subagent of the pass, if several passes have the same id.
   * @defaultValue None; not needed if the id is unique.
   */
  subagent?: string | undefined
  /**
   * Name that the audit trail records for this application, if no approval was required.
   * @defaultValue The name of the agent.
   */
  appliedBy?: string | undefined
}

const applyOptions = z.strictObject({
  directory: z.string().optional(),
  only: z.array(z.number()).readonly().optional(),
  binary: z.boolean().optional(),
  subagent: z.string().optional(),
  appliedBy: z.string().optional(),
} satisfies Record<keyof ApplyOptions, z.ZodType>)

/** Milliseconds to wait until the audit service has the return. The audit service reads the stream with a short delay. */
const READ_TIMEOUT_MS = 3_000
const DECISION_TIMEOUT_MS = 1_500
const RETRY_DELAY_MS = 50

/**
 * Applies the file modifications of a stored return in a directory: those that a valid `apply` decision approved, or all if the pass's policy sets
 * `require_user_approval: false` (docs/architecture/protocol.md#release-and-apply). Conflicts are part of the result; then nothing is written. Throws
 * E013 if the output belongs to another agent, was not approved, was denied or awaits release, E041 if there is no such pass, and E040 without an
 * answer.
 */
export async function applyOutput(context: ApplyContext, given: WorkOutput | string, options: ApplyOptions = {}): Promise<Applied> {
  checkOptions(applyOptions, options)
  const { deps } = context
  const name = deps.bus.identity
  if (typeof given !== 'string' && given.originating_agent_id !== name)
    throw new PassOverError('E013', `the output is for ${given.originating_agent_id}, not for ${name}`)
  const about = typeof given === 'string' ? { id: given, subagent: options.subagent } : { id: given.work_id, subagent: given.subagent_id }
  const { input, output } = await loadInput(context, about)
  const allowed = authorizeApply(input, options.only)
  const target = { ...context, directory: options.directory ?? context.directory }
  if (!allowed.ok) {
    // Resolve incomplete sets even if this application is refused.
    await recoverDirectory(target)
    throw allowed.error
  }
  await deps.faults?.at('apply:after-decision', input.key)
  const applied_by = allowed.by ?? options.appliedBy ?? name
  const todo: ToApply = { key: input.key, all: input.all, taken: allowed.taken, applied_by, binary: options.binary ?? false }
  const applied = await applySelected(target, todo)
  for (const one of typeof given === 'string' ? [output] : [output, given]) noteApplied(one, applied)
  return applied
}

/** Records in the metadata of the output that it was applied. */
export function noteApplied(output: WorkOutput, { applied, applied_at, applied_by }: Applied): void {
  if (applied.length > 0 && applied_at !== undefined) Object.assign(output.metadata, { applied: true, applied_at, applied_by })
}

interface About {
  id: string
  subagent: string | undefined
}

/** Loads the pass with its stored output: the copy of the caller may have been modified. */
async function loadInput({ deps }: ApplyContext, about: About): Promise<{ input: AuthorizationInput; output: WorkOutput }> {
  const begun = deps.clock.monotonic()
  for (;;) {
    const { pass, storedReturn } = await readPass(deps, about, begun + READ_TIMEOUT_MS)
    const decision = applyDecision(pass, storedReturn.data)
    const control = pass.control as WorkControl | undefined
    const waits = !decision && control?.policy.require_user_approval !== false && pass.status !== 'awaiting_release'
    if (waits && deps.clock.monotonic() < begun + DECISION_TIMEOUT_MS) {
      await sleep(deps.clock, RETRY_DELAY_MS)
      continue
    }
    const opened = await decodeReturn(deps, pass.key, storedReturn)
    if (!opened.ok) throw PassOverError.from(opened.error)
    return { input: authorizationInput(pass, storedReturn, opened.output), output: opened.output }
  }
}

/** Converts the audit service's answer about a pass to the input of the authorization rules. */
export function authorizationInput(
  pass: AnsweredPass,
  storedReturn: Pick<StoredReturn, 'data'> | undefined,
  output: WorkOutput,
): AuthorizationInput {
  return {
    key: pass.key,
    status: pass.status,
    control: pass.control as WorkControl | undefined,
    unacceptable: passError.safeParse(pass.record?.error).data,
    withheld: pass.decisions.some(({ item, verdict }) => item === 'return' && verdict === 'deny'),
    decision: storedReturn && applyDecision(pass, storedReturn.data),
    all: modificationsIn(output),
  }
}

async function readPass(deps: Deps, about: About, until: number): Promise<{ pass: AnsweredPass; storedReturn: StoredReturn }> {
  for (;;) {
    const pass = await askOwn(deps, about)
    const storedReturn =
      pass && ((pass.return as StoredReturn | undefined) ?? (pass.return_left_out ? await readLargeReturn(deps, pass) : undefined))
    if (pass && storedReturn) return { pass, storedReturn }
    if (deps.clock.monotonic() > until) {
      if (!pass) throw new PassOverError('E041', `${deps.bus.identity} has no pass ${about.id}`, { id: about.id })
      throw new PassOverError('E041', `${about.id} has no output to apply: its status is ${pass.status}`, { id: about.id })
    }
    await sleep(deps.clock, RETRY_DELAY_MS)
  }
}

async function askOwn({ bus }: Deps, { id, subagent }: About): Promise<AnsweredPass | undefined> {
  const question = { op: 'pass' as const, originator: bus.identity, id, ...(subagent !== undefined && { subagent }) }
  const answer = passAnswer.safeParse(await bus.ask(question).catch(() => undefined))
  if (!answer.success) throw new PassOverError('E040', 'no audit service answers, so the decision on the changes cannot be read', { id })
  if (!answer.data.ok) {
    if (answer.data.error.code === 'E041') return undefined
    throw PassOverError.from(answer.data.error)
  }
  const own = answer.data.passes.filter(({ key }) => key.originator === bus.identity)
  if (own.length > 1) throw new PassOverError('E042', `several passes have the id ${id}: name the subagent`, { id })
  return own[0]
}

/** Reads a return from the stream that is too large for an answer of the audit service. */
async function readLargeReturn({ bus }: Deps, { key, record }: AnsweredPass): Promise<StoredReturn | undefined> {
  const sequence = (record?.sequences as { return?: number } | undefined)?.return
  const stored = await bus.journal.last(bus.subjects.return(key, key.subagent))
  if (!stored || stored.sequence !== sequence) return undefined
  const { time, data, headers } = stored
  return { by: key.subagent, sequence: stored.sequence, time, data, content_type: headers.get(HEADER.contentType) }
}
