import { existsSync, statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Bus, PolicyStore } from '@passover/bus'
import { askAgents, openQueued, totalLoad } from '@passover/operator'
import type { AgentRecord, PassOverPreferences } from '@passover/schemas'
import { folderFault, type IgnoredFile, searchProject } from '@passover/sdk/internal/project'
import { revokedAgents } from '../auth/find-keys.js'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { credentialsFor } from '../connection/credentials.js'
import { readServerFile } from '../connection/project-directory.js'
import type { ServerSetting } from '../connection/settings.js'
import { CliFailure } from '../errors.js'
import { Sandbox } from '../sandbox/sandbox.js'
import { dateTime } from '../terminal/duration.js'
import type { Terminal } from '../terminal/terminal.js'
import { count, formatCommands } from '../terminal/text.js'
import { checkAudit } from './audit.js'
import { broken, type Check, ifAnswered, ok, warning } from './check.js'
import { checkDurability } from './durability.js'
import { checkIsolation } from './isolation.js'
import { checkClocks, checkDomain, checkLimits } from './limits.js'
import { checkCredentials, checkNode, checkProject, checkSandbox, type ProjectFacts } from './machine.js'
import { checkGateway, checkUp } from './processes.js'
import { BACKLOG_THRESHOLD, inspectOpenPasses, inspectQueue } from './queue.js'
import { checkServer, checkTopology } from './server.js'
import { projectServerSettings, readMonitoring, type ServerSettings } from './server-settings.js'
import { checkStores, checkTrust } from './stores.js'

/** Addresses of other endpoints to check. */
export interface DoctorFlags {
  monitor?: string | undefined
  gateway?: string | undefined
}

/** Runs every check. Exit code 1 if something is broken, 5 if the server cannot be reached. */
export async function runDoctor(context: Context, { monitor, gateway }: DoctorFlags): Promise<number> {
  const { project, ignored } = searchProject(context.directory)
  const found = [checkNode(process.versions.node), ...checkIgnored(ignored)]
  if (project || ignored.length === 0) found.push(...checkProject(project && projectFacts(project.folder), context.directory))
  const sandbox = await Sandbox.detect({ directory: context.directory, env: context.env, writable: [] })
  found.push(...checkSandbox(sandbox))
  const reached = await checkConnection(context, { checks: found, monitor })
  found.push(...(await checkGateway(gateway, Date.now())))
  const checks = found.map(({ text, mend, ...check }) => ({
    ...check,
    text: formatCommands(text),
    ...(mend === undefined ? {} : { mend: formatCommands(mend) }),
  }))
  const failed = checks.filter(({ state }) => state === 'broken').length
  context.terminal.show({ ok: failed === 0, checks, sandbox: sandbox.guarantees }, () => renderChecks(checks, context.terminal))
  return reached ? (failed > 0 ? 1 : 0) : 5
}

/** Warns about project files that name a server but are not trusted. */
function checkIgnored(ignored: readonly IgnoredFile[]): Check[] {
  return ignored.map(({ path, why, hint }) => warning('trust', `${path} is ignored: ${why}`, hint))
}

function projectFacts(folder: string): ProjectFacts {
  return {
    folder,
    mode: statSync(join(folder, 'server.json')).mode,
    ignored: existsSync(join(folder, '.gitignore')),
    distrust: folderFault(folder),
    file_system: fileSystem(folder),
  }
}

function fileSystem(folder: string): ProjectFacts['file_system'] {
  try {
    const { type, bavail, bsize } = statfsSync(folder)
    return { type, free_bytes: bavail * bsize }
  } catch {
    return undefined
  }
}

/** Adds the checks that need a connection. Returns false if the server cannot be reached. */
async function checkConnection(context: Context, { checks, monitor }: { checks: Check[]; monitor: string | undefined }): Promise<boolean> {
  let server: ServerSetting
  try {
    server = context.server()
    const access = credentialsFor(server, { role: 'person', name: context.person })
    checks.push(checkCredentials(access.credentials, Date.now()))
    await using bus = await connectPerson(context)
    checks.push(...(await checkIsolation(context, server)))
    await inspectServer(bus, await settingsOf(server, monitor, checks), { server, checks })
    const health = server.project ? readServerFile(server.project)?.health : undefined
    checks.push(...(await checkUp(health, Date.now())))
    return true
  } catch (error) {
    if (!(error instanceof CliFailure) || (error.code !== 'E040' && error.code !== 'E013')) throw error
    checks.push(broken(error.code === 'E013' ? 'credentials' : 'server', error.message, error.hint ?? 'passover up'))
    return false
  }
}

async function inspectServer(
  bus: Bus,
  settings: ServerSettings,
  { server, checks }: { server: ServerSetting; checks: Check[] },
): Promise<void> {
  checks.push(ok('address', `${server.url} (${server.from})`))
  const inspection = await bus.inspect()
  const usage = inspection.stream ? await bus.usage() : undefined
  checks.push(...checkServer(inspection), ...checkTopology(inspection, usage), ...checkDurability(inspection, settings))
  checks.push(...checkLimits(inspection, settings), ...checkDomain(inspection), ...checkClocks(inspection.clocks))
  checks.push(...checkStores(inspection, settings))
  checks.push(...(await checkAudit(bus)), await checkDispatcher(bus))
  const stores = new Set(inspection.buckets.map(({ name }) => name))
  const policy = stores.has('policy') ? await policyOf(bus) : {}
  checks.push(...(await checkAgents(bus, { consumers: inspection.consumers, revoked: revokedAgents(server), policy })))
  if (inspection.stream && stores.has('agents') && stores.has('policy')) checks.push(...(await checkTrust(bus)))
}

/** Reads settings that clients cannot see: from the monitoring address if one is given, else from the configuration of the project's own server. */
async function settingsOf({ project }: ServerSetting, monitor: string | undefined, checks: Check[]): Promise<ServerSettings> {
  if (monitor === undefined) return project ? projectServerSettings(project) : {}
  const told = await readMonitoring(monitor)
  if (!('unseen' in told)) return told
  checks.push(warning('monitor', told.unseen, 'set --monitor to the address of http_port, such as http://127.0.0.1:8222'))
  return {}
}

/** Checks that a dispatcher answers, with a registration that it must refuse, so that nothing is registered. */
async function checkDispatcher(bus: Bus): Promise<Check> {
  const answer = await bus.ask({ description: 0 }, { service: 'register' })
  return answer === undefined ? broken('dispatcher', 'no dispatcher answers', 'passover up') : ok('dispatcher', 'answers')
}

/** Returns the policy in force, or an empty one. Only reads it: `doctor` never puts a policy into force. */
async function policyOf(bus: Bus): Promise<PassOverPreferences> {
  const stand = await (await PolicyStore.open(bus)).stand()
  return stand.kind === 'valid' ? stand.value.document : {}
}

interface Known {
  consumers: readonly string[]
  revoked: ReadonlyMap<string, number>
  policy: PassOverPreferences
}

/** Checks that each registered subagent has its three work consumers, and warns about queued work without a worker. */
async function checkAgents(bus: Bus, { consumers, revoked, policy }: Known): Promise<Check[]> {
  const agents = (await ifAnswered(askAgents(bus))) ?? []
  const checks = agents.flatMap(({ agent, originated }) => checkRevoked(agent, originated, revoked))
  for (const { agent, open, waiting: unstarted } of agents.filter(({ agent }) => agent.roles.subagent)) {
    const { name } = agent
    const own = consumers.filter((consumer) => ['high', 'medium', 'low'].some((priority) => consumer === `work_${name}_${priority}`))
    if (own.length < 3)
      checks.push(
        broken(
          'agents',
          `${name} has ${own.length} of its 3 work consumers`,
          'a running dispatcher creates them within seconds; to start one: passover up',
        ),
      )
    const load = await totalLoad(bus, name)
    const queued = openQueued(load, open)
    const waiting = count(queued, 'pass waits', 'passes wait')
    const revoked_at = revoked.get(name) ?? agent.revoked_at
    if (revoked_at !== undefined) {
      const text = `credentials of agent ${name} were revoked ${dateTime(revoked_at)}: no worker can connect as this agent${queued > 0 ? `, and ${waiting} for it` : ''}`
      checks.push(warning('agents', text, `passover auth add agent ${name}, or passover agents remove ${name}`))
    } else if (queued > 0 && load.idle === 0 && load.running === 0)
      checks.push(warning('agents', `${waiting} for ${name}, which has no worker`, `passover work ${name} -- <command>`))
    if (queued >= BACKLOG_THRESHOLD) checks.push(...(await inspectQueue(bus, name)))
    checks.push(...(await inspectOpenPasses(bus, { subagent: name, open: open + unstarted }, policy)))
  }
  if (checks.length === 0) checks.push(ok('agents', count(agents.length, 'registered agent')))
  return checks
}

/**
 * Warns about open passes of a revoked agent, which continue, and about a revocation that is missing in the registry: people without the
 * project's keys see it only there.
 */
function checkRevoked({ name, revoked_at }: AgentRecord, originated: number, revoked: ReadonlyMap<string, number>): Check[] {
  const left = `${count(originated, 'pass', 'passes')} from ${name}, requested before its revocation, ${originated === 1 ? 'is' : 'are'} still open`
  return [
    ...(revoked.has(name) && revoked_at === undefined
      ? [
          warning(
            'agents',
            `the registry does not have the revocation of ${name}: people on other machines do not see it`,
            `passover auth revoke ${name}`,
          ),
        ]
      : []),
    ...(originated > 0 && (revoked.has(name) || revoked_at !== undefined)
      ? [warning('agents', left, `passover cancel --from ${name} --all`)]
      : []),
  ]
}

export function renderChecks(checks: Check[], { colors }: Pick<Terminal, 'colors'>): string {
  const marks = { ok: colors.green('✓'), look: colors.yellow('!'), broken: colors.red('✗') }
  const lines = checks.flatMap(({ name, state, text, mend }) => [
    `${marks[state]} ${name.padEnd(12)} ${text}`,
    ...(mend && state !== 'ok' ? [`${' '.repeat(15)}→ ${mend}`] : []),
  ])
  const failed = checks.filter(({ state }) => state === 'broken').length
  const doubtful = checks.filter(({ state }) => state === 'look').length
  const also = doubtful > 0 ? `, ${count(doubtful, 'warning')}` : ''
  const sum =
    failed > 0 ? colors.red(`${count(failed, 'problem')}${also}`) : doubtful > 0 ? `no problems${also}` : colors.green('no problems')
  return [...lines, '', sum].join('\n')
}
