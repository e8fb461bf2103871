import { type Bus, verifiedAgents } from '@passover/bus'
import { closestMatch, modificationsIn } from '@passover/core'
import { noWorkersText, workersFor } from '@passover/operator'
import { type ParentProof, parentProof, type WorkOutput } from '@passover/schemas'
import type { Agent, PassHandle, PassOverOptions } from '@passover/sdk'
import { connectAgent } from '../connection/connect-agent.js'
import { connectAs } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import type { ServerSetting } from '../connection/settings.js'
import { CliFailure, usage } from '../errors.js'
import { readStdin } from '../input/stdin.js'
import { renderOutput } from '../render/result.js'
import { stopSignals } from '../terminal/stop-signals.js'
import { count } from '../terminal/text.js'
import { readContextFiles } from './context-files.js'
import { heldText, showProgress } from './request-progress.js'

export interface RequestOptions {
  from?: string
  to: string
  objective: string
  reason: string
  file?: string[]
  timeout?: number
  priority: 'high' | 'medium' | 'low'
  constraint?: string[]
  session?: string
  id?: string
  background?: string
  hold?: true
  autoReturn?: true
  wait: boolean
}

/** The request, its originator, and whether to wait for the result. */
export interface RequestRun {
  from: string
  request: PassOverOptions
  wait: boolean
  session?: string | undefined
}

/** `passover request`: builds the request from flags, files and the environment, and runs it. */
export async function runRequest(context: Context, options: RequestOptions): Promise<number> {
  const parent = parentFrom(context.env)
  const from = options.from ?? parent?.subagent ?? context.person
  const request = passOverOptions(context, { ...options, objective: await objectiveOf(options.objective) }, parent)
  return passOverAndWait(context, { from, request, wait: options.wait, session: options.session })
}

/** Passes work over, waits with progress on stderr, and prints the result. Exit code 0 if completed or partial, 1 if failed or aborted. */
export async function passOverAndWait(context: Context, { from, request, wait, session }: RequestRun): Promise<number> {
  const { terminal } = context
  const { subagent: to } = request
  const server = context.announcedServer()
  await using agent = await connectOriginator(context, { from, server, session })
  using signals = stopSignals(() => {})
  const handle = agent.passOver(request)
  const result = handle.result()
  result.catch(() => {})
  let stored = false
  const storing = handle.stored.then(
    () => {
      stored = true
    },
    () => {},
  )
  if (!wait) return await sendRequest(context, { handle, from, request }, server)
  const progress = terminal.progress()
  await using bus = await observer(context, server)
  const following = bus ? showProgress(bus, { id: handle.id, from, to, progress }) : { stop: () => progress.stop() }
  try {
    const first = await Promise.race([result, signals.first])
    following.stop()
    if (first === 'stop') return interrupted(context, handle.id)
    terminal.show(first, () => renderOutput(first, { colors: terminal.colors, as: 'originator' }, handle.id))
    tellChanges(context, first)
    return first.status === 'completed' || first.status === 'partial' ? 0 : 1
  } catch (error) {
    following.stop()
    await Promise.race([storing, result.catch(() => {})])
    if (!stored) throw error
    const mend = bus && ((await noWorkerHint(error, bus, to)) ?? (await otherNameHint(error, bus, to)))
    throw withLookup(await withRulePlace(error, context), handle.id, mend)
  }
}

/** Connects as the originator. Throws CliFailure E013 that suggests `--from` if a person without agent credentials uses their own name. */
async function connectOriginator(
  { directory, person }: Context,
  { from, server, session }: { from: string; server: ServerSetting; session: string | undefined },
): Promise<Agent> {
  try {
    return await connectAgent(from, server, { directory, session_id: session })
  } catch (error) {
    if (from !== person || !(error instanceof CliFailure) || error.code !== 'E013') throw error
    throw new CliFailure('E013', `${person} is not an agent of this installation, and only agents can request passes`, {
      hint: 'name the originator: --from <agent>; to add a new agent: passover auth add agent <name>',
    })
  }
}

/** Connects as the person to read progress and hints; `undefined` in a command of an isolated agent, which has only the agent's credentials. */
async function observer({ person }: Context, server: ServerSetting): Promise<Bus | undefined> {
  try {
    return await connectAs(person, server)
  } catch (error) {
    if (error instanceof CliFailure && error.code === 'E013') return undefined
    throw error
  }
}

/** Notes proposed changes, which are written only by a separate command. */
function tellChanges({ terminal }: Context, output: WorkOutput): void {
  const proposed = modificationsIn(output).length
  if (terminal.mode !== 'human' || proposed === 0 || output.metadata.applied) return
  terminal.note(`${count(proposed, 'change')} proposed, nothing written yet: passover apply ${output.work_id} (--dry-run shows the diff)`)
}

function passOverOptions(context: Context, options: RequestOptions, parent: ParentProof | undefined): PassOverOptions {
  const { id, to, reason, priority, timeout, constraint, session, background } = options
  const override = { ...(options.hold ? { hold_before_dispatch: true } : {}), ...(options.autoReturn ? { auto_return: true } : {}) }
  return {
    subagent: to,
    reason,
    priority,
    return_required: true,
    work_context: {
      directory: context.directory,
      objective: options.objective,
      files: readContextFiles(options.file ?? [], context.directory),
      messages: [],
      ...(session ? { session_id: session } : {}),
      ...(background ? { background } : {}),
    },
    ...(id ? { id } : {}),
    ...(timeout ? { timeout_ms: timeout } : {}),
    ...(constraint ? { constraints: constraint } : {}),
    ...(Object.keys(override).length > 0 ? { override } : {}),
    ...(parent ? { parent } : {}),
    ...(context.env.TRACEPARENT ? { traceparent: context.env.TRACEPARENT } : {}),
  }
}

/** Reads the objective; `-` means stdin. */
async function objectiveOf(given: string): Promise<string> {
  const text = given === '-' ? await readStdin('the objective') : given
  if (text.trim() === '') throw usage('the objective is empty', 'describe the work: --objective "…"')
  return text
}

/** Returns the parent pass of a command that works on one (PASSOVER_PARENT, set by `passover work`). */
function parentFrom(env: NodeJS.ProcessEnv): ParentProof | undefined {
  if (!env.PASSOVER_PARENT) return undefined
  let value: unknown
  try {
    value = JSON.parse(env.PASSOVER_PARENT)
  } catch {
    value = undefined
  }
  const parsed = parentProof.safeParse(value)
  if (!parsed.success) throw usage('PASSOVER_PARENT is not a value that `passover work` sets', 'unset it to request a root pass')
  return parsed.data
}

interface SendResult {
  handle: PassHandle
  from: string
  request: PassOverOptions
}

async function sendRequest({ terminal, person }: Context, { handle, from, request }: SendResult, server: ServerSetting): Promise<number> {
  const { subagent: to, retry_of, override } = request
  const held = override?.hold_before_dispatch === true
  await handle.stored
  if (!held && terminal.mode === 'human' && (await hasNoWorker(person, server, to))) terminal.note(noWorkersText(to))
  if (held && terminal.mode === 'human') terminal.note(heldText({ id: handle.id, from }, person))
  terminal.show({ id: handle.id, from, to, ...(retry_of === undefined ? {} : { retry_of }) }, () => handle.id)
  return 0
}

function interrupted({ terminal }: Context, id: string): number {
  const hint = `the pass continues; to see it: passover show ${id}   to cancel it: passover cancel ${id}`
  if (terminal.mode !== 'human')
    terminal.show({ error: { code: 'INTERRUPTED', message: `interrupted while waiting for ${id}`, hint } }, () => '')
  else terminal.note(`Interrupted; ${hint}`)
  return 130
}

/** True if the subagent is registered but has no worker. False on errors, which do not affect the pass. */
async function hasNoWorker(person: string, server: ServerSetting, to: string): Promise<boolean> {
  try {
    await using bus = await connectAs(person, server)
    const known = (await verifiedAgents(bus)).get(to)
    return known?.roles.subagent === true && (await workersFor(bus, to)) === 0
  } catch {
    return false
  }
}

/** Suggests starting a worker after a timeout without workers, when more time would not help. */
async function noWorkerHint(error: unknown, bus: Bus, to: string): Promise<string | undefined> {
  if (!(error instanceof Error) || !('code' in error) || error.code !== 'E010') return undefined
  const workers = await workersFor(bus, to).catch(() => undefined)
  return workers === 0 ? `\`${to}\` has no worker; to start one: passover work ${to} -- <command>.` : undefined
}

/** Suggests a similar name if no agent has the given one. */
async function otherNameHint(error: unknown, bus: Bus, to: string): Promise<string | undefined> {
  if (!(error instanceof Error) || !('code' in error) || error.code !== 'E001') return undefined
  const names = await namesIn(bus).catch((): string[] => [])
  const close = names.includes(to) ? undefined : closestMatch(to, names)
  return close && `Did you mean ${close}? \`passover agents\` lists the registered agents.`
}

async function namesIn(bus: Bus): Promise<string[]> {
  return [...(await verifiedAgents(bus)).values()].filter(({ roles }) => roles.subagent).map(({ name }) => name)
}

/** Adds the location of the rule in the project's policy file to a refusal by policy. */
async function withRulePlace(error: unknown, context: Context): Promise<unknown> {
  if (!(error instanceof Error) || !('context' in error)) return error
  const { policy_path } = (error.context ?? {}) as { policy_path?: unknown }
  if (typeof policy_path !== 'string') return error
  const { locateInPolicyFile } = await import('../policy/read-file.js')
  const rule_at = locateInPolicyFile(context, policy_path)
  return rule_at ? Object.assign(error, { rule_at }) : error
}

/** Adds the pass id to an error, so that the pass can be inspected, and `mend` if it says more than the error table. */
function withLookup(error: unknown, id: string, mend: string | undefined): unknown {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string' || error instanceof CliFailure) return error
  if (!/^E0(?!4[0-2])\d\d$/.test(error.code)) return error
  return Object.assign(error, { pass_id: id, ...(mend === undefined ? {} : { mend }) })
}
