import { type AgentCheck, checkAgent, parseCredentials, readTextFile } from '@passover/bus'
import { askAgents } from '@passover/operator'
import { connectPerson, unreachableError } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { credentialsFor } from '../connection/credentials.js'
import { serverUrls } from '../connection/settings.js'
import { CliFailure } from '../errors.js'
import type { Terminal } from '../terminal/terminal.js'
import { count, formatCommands } from '../terminal/text.js'

export interface AuthCheckOptions {
  credentials?: string
}

/** Tries, as an agent, actions that its rights must not allow. Returns exit code 0 if all were tried and the server refused every one, else 1. */
export async function runAuthCheck(context: Context, options: AuthCheckOptions, agent: string): Promise<number> {
  const { terminal } = context
  const server = context.server()
  const { PASSOVER_PREFIX: prefix, PASSOVER_STREAM: stream } = context.env
  const witness = credentialsFor(server, { role: 'person', name: context.person })
  const progress = terminal.progress()
  progress.say(`trying actions that ${agent} must not be able to do`)
  try {
    const check = await checkAgent({
      servers: serverUrls(server),
      agent,
      credentials:
        options.credentials === undefined
          ? credentialsFor(server, { role: 'agent', name: agent }).credentials
          : agentCredentials(options.credentials),
      witness: { identity: context.person, credentials: witness.credentials },
      tls: witness.tls,
      peers: await peersOf(context),
      prefix,
      stream,
    })
    progress.stop()
    terminal.show({ ok: isFine(check), ...check }, () => render(check, terminal))
    return isFine(check) ? 0 : 1
  } catch (error) {
    throw unreachableError(error, server)
  } finally {
    progress.stop()
  }
}

function agentCredentials(path: string) {
  const text = readTextFile(path)
  if (text === undefined) throw new CliFailure('E030', `--credentials: ${path} cannot be read`)
  return parseCredentials(text)
}

/** Returns the names of the registered agents, or none if the registry cannot be read. */
async function peersOf(context: Context): Promise<string[]> {
  try {
    await using bus = await connectPerson(context)
    return (await askAgents(bus)).map(({ agent }) => agent.name)
  } catch (error) {
    if (error instanceof CliFailure) return []
    throw error
  }
}

function isFine({ probes }: AgentCheck): boolean {
  return probes.every(({ state }) => state === 'refused')
}

const FIX = '  → to isolate the agents: passover up --isolated, or passover auth init (docs/operations/security.md)'

function render({ agent, level, probes, stored }: AgentCheck, { colors }: Pick<Terminal, 'colors'>): string {
  const of = (state: string) => probes.filter((probe) => probe.state === state)
  const [possible, untested] = [of('possible'), of('untested')]
  const lines = [
    ...possible.map(({ probe, text }) => `${colors.red('✗')} ${probe}: ${text}`),
    ...untested.map(({ probe, text }) => `${colors.yellow('!')} ${probe}: not tested, ${text}`),
    `${colors.green('✓')} the server refused ${possible.length + untested.length === 0 ? `all ${count(of('refused').length, 'attempt')}` : `the other ${count(of('refused').length, 'attempt')}`}`,
    ...(stored.length > 0
      ? [`  the check stored ${count(stored.length, 'object')}, which the next check reuses: ${stored.join(', ')}`]
      : []),
    '',
  ]
  if (level === 'open') {
    return [colors.red(`${agent} can do everything: this server has no permissions.`), formatCommands(FIX)].join('\n')
  }
  if (possible.length > 0)
    return [...lines, colors.red(`${agent} can act outside of its rights in ${count(possible.length, 'way')}.`), formatCommands(FIX)].join(
      '\n',
    )
  if (untested.length > 0)
    return [...lines, `The server refused every attempt that was tested; ${count(untested.length, 'attempt')} could not be tested.`].join(
      '\n',
    )
  return [...lines, colors.green(`${agent} could not act outside of its rights.`)].join('\n')
}
