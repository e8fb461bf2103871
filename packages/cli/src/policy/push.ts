import {
  activePolicy,
  downgradeMissingAgents,
  faultText,
  invalidPolicyError,
  jsonFault,
  publish,
  sameDocument,
  validateForPublish,
  versionConflict,
} from '@passover/operator'
import type { PassOverPreferences } from '@passover/schemas'
import type { Context } from '../connection/context.js'
import { formatPerson, readNameVerification } from '../connection/verified-names.js'
import { CliFailure } from '../errors.js'
import { count, formatCommands } from '../terminal/text.js'
import { describeDifference, diffPolicies } from './diff.js'
import { findPolicyFile, newPolicyFile, type PolicyFile } from './find-file.js'
import { checkPolicyFile, readPolicyFile } from './read-file.js'
import { openPolicy, type PolicySession } from './session.js'

export interface PolicyCheckOptions {
  allowMissing?: true
  offline?: true
}

export interface PolicyPushOptions {
  reason?: string
  dryRun?: true
  base?: number
  allowMissing?: true
}

/** Returns the project's policy file. Throws CliFailure E041 if there is none. */
export function requiredFile(
  { directory, env, terminal }: Pick<Context, 'directory' | 'env' | 'terminal'>,
  path: string | undefined,
): PolicyFile {
  const file = findPolicyFile({ directory, env, path, terminal })
  if (file) return file
  throw new CliFailure('E041', `there is no policy file in ${directory} or above it in its repository`, {
    hint: `to create ${newPolicyFile({ directory, env })}: passover policy pull; to use another file, set PASSOVER_CONFIG or give its path`,
  })
}

/** `passover policy check [file]`: validates the file, and checks its agents against the registry if a server is reachable. */
export async function runPolicyCheck(context: Context, options: PolicyCheckOptions, path: string | undefined): Promise<number> {
  const { terminal } = context
  const file = requiredFile(context, path)
  const { agents, unknown } = await registryOf(context, options)
  const read = await checkPolicyFile(file, agents)
  const faults = downgradeMissingAgents(read.faults, options.allowMissing === true)
  if (faults.some(({ severity }) => severity === 'error')) throw invalidPolicyError(file.shown, faults)
  // There is no document if the file has errors, even if all of them were downgraded.
  const { pairs = {}, subagents = {} } = (read.document ?? read.value ?? {}) as PassOverPreferences
  const numbers = `${count(Object.keys(pairs).length, 'pair')}, ${count(Object.keys(subagents).length, 'subagent')}`
  const document = { file: file.path, valid: true, warnings: faults.map(jsonFault), agents_checked: agents !== undefined }
  terminal.show(document, () =>
    [`${terminal.colors.green('✓')} ${file.shown} is valid: ${numbers}`, ...faults.map((fault) => formatCommands(faultText(fault)))].join(
      '\n',
    ),
  )
  if (unknown && terminal.mode === 'human') terminal.note(`Agent names were not checked against the registry: ${unknown}.`)
  return 0
}

async function registryOf(context: Context, { offline }: PolicyCheckOptions) {
  if (offline) return { agents: undefined, unknown: '--offline' }
  try {
    await using session = await openPolicy(context)
    return { agents: session.agents, unknown: session.agents ? undefined : 'no agent is registered yet' }
  } catch (error) {
    if (!(error instanceof CliFailure) || error.code !== 'E040') throw error
    return { agents: undefined, unknown: 'no server could be reached' }
  }
}

/** `passover policy push [file]`: publishes the file as the next version. */
export async function runPolicyPush(context: Context, options: PolicyPushOptions, path: string | undefined): Promise<number> {
  const { terminal } = context
  const file = requiredFile(context, path)
  await using session = await openPolicy(context)
  const read = await checkPolicyFile(file, session.agents)
  const faults = downgradeMissingAgents(read.faults, options.allowMissing === true)
  if (!read.document && !options.allowMissing) throw invalidPolicyError(file.shown, faults)
  const document = read.document ?? (await checkPolicyFile(file, undefined)).document
  if (!document || faults.some(({ severity }) => severity === 'error')) throw invalidPolicyError(file.shown, faults)
  const warnings = await validateForPublish(document, {
    what: file.shown,
    agents: session.agents,
    allowMissing: options.allowMissing === true,
  })
  const live = await activePolicy(session)
  if (options.base !== undefined && options.base !== live.version) {
    throw versionConflict(live.value, {
      now: session.bus.now(),
      base: options.base,
      keptIn: file.shown,
      names: await readNameVerification(session.bus, context),
    })
  }
  if (sameDocument(document, live.document)) return unchanged(context, live.version, file)
  const changes = diffPolicies(live.document, document)
  const lines = changes.map((one) => `  ${describeDifference(one)}`)
  const summary = {
    base: live.version,
    file: file.path,
    changes: changes.map(({ path: at, before, after }) => ({ path: at, before, after })),
  }
  const more = { ...summary, warnings: warnings.map(jsonFault) }
  const remarks = warnings.map((fault) => formatCommands(faultText({ ...fault, file: file.shown })))
  if (options.dryRun) {
    terminal.show({ dry_run: true, version: live.version + 1, ...more }, () =>
      [`Would publish version ${live.version + 1}, ${count(changes.length, 'change')}:`, ...lines, ...remarks].join('\n'),
    )
    return 0
  }
  const { version } = await publish(session, { document, base: live.version, reason: options.reason }, file.shown)
  const names = await readNameVerification(session.bus, context)
  const by = formatPerson(context.person, names)
  terminal.show({ version, by: context.person, ...names, ...more }, () =>
    [
      `${terminal.colors.green('✓')} Policy version ${version} is in force, by ${by}, ${count(changes.length, 'change')}:`,
      ...lines,
      ...remarks,
    ].join('\n'),
  )
  return 0
}

function unchanged({ terminal }: Context, version: number, file: PolicyFile): number {
  terminal.show(
    { version, file: file.path, unchanged: true, changes: [] },
    () => `No change: ${file.shown} equals policy version ${version}.`,
  )
  return 0
}

/** Notes that the file differs after a change made elsewhere; the next push of the file would undo it. */
export async function noteFileDiffers(
  context: Context,
  session: Pick<PolicySession, 'agents'>,
  document: Parameters<typeof sameDocument>[0],
): Promise<void> {
  if (context.terminal.mode !== 'human') return
  const file = findPolicyFile(context)
  const said = file && readPolicyFile(file, session.agents).document
  if (file && said && !sameDocument(said, document))
    context.terminal.note(`${file.shown} differs from it. To update the file: passover policy pull`)
}
