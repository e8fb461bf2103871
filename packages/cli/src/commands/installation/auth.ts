import { Argument, Command, InvalidArgumentError, Option } from 'commander'
import type { AuthCheckOptions } from '../../auth/check.js'
import type { TlsOptions } from '../../auth/init.js'
import type { AuthAddOptions, PrincipalKind } from '../../auth/manage-principals.js'
import { action } from '../../connection/context.js'
import { durationOption, integerOption, nameOption } from '../../input/options.js'

export const TLS_HELP = 'encrypt connections with a self-created certificate authority (for development)'
export const TLS_CERT_HELP = 'server certificate, PEM'
export const TLS_KEY_HELP = 'private key of the server certificate, PEM'
export const TLS_CA_HELP = 'certificate of the authority that signed it, PEM (default: an authority that the system trusts)'

const EXPIRES = 'validity, such as 12h or 30d'
const CONNECTIONS = 'maximum number of concurrent connections of the agent'
const MAX_CONNECTIONS = 65_536
const OUT = 'also write the credentials to this file, mode 0600'
/** Names of services in the records. Names of agents and people contain no dot. */
const SERVICE = /^passover\.(?:dispatcher|audit|notifier|gateway)$/

/** `passover auth …` */
export function authCommand(): Command {
  const command = new Command('auth')
    .description('manage keys and credentials of agents, people and services, and check that agents are isolated')
    .addHelpText(
      'after',
      `
Each agent gets its own account at the server; people and services are users of the core account. Keys and
credentials are kept in .passover/auth. Keep keys.json private: it can issue any right. More: docs/operations/security.md.

Examples:
  passover up --isolated
  passover auth add agent alice
  passover auth check alice`,
    )
  for (const child of [init(), add(), rotate(), revoke(), list(), check()]) command.addCommand(child)
  return command
}

function init(): Command {
  return new Command('init')
    .description('create the keys of an isolated installation; you become its custodian')
    .option('--tls', TLS_HELP)
    .option('--tls-cert <file>', TLS_CERT_HELP)
    .option('--tls-key <file>', TLS_KEY_HELP)
    .option('--tls-ca <file>', TLS_CA_HELP)
    .addHelpText('after', '\nFails if keys already exist. Also writes the part of a nats-server configuration that isolation needs.')
    .action(action<TlsOptions, []>(async (context, options) => (await import('../../auth/init.js')).runAuthInit(context, options)))
}

function add(): Command {
  return new Command('add')
    .description('issue credentials for an agent, a person or a service')
    .addArgument(new Argument('<kind>', 'kind of principal').choices(['agent', 'person', 'auditor', 'custodian', 'service']))
    .argument('<name>', 'name; for a service: dispatcher, audit, notifier or gateway', nameOption)
    .addOption(
      new Option('--originates <when>', 'when it may originate passes (default: always)').choices(['always', 'within_a_pass', 'never']),
    )
    .option('--no-subagent', 'it receives no passes')
    .option('--expires <time>', EXPIRES, durationOption('--expires'))
    .option('--connections <n>', `${CONNECTIONS} (default: 256)`, integerOption('--connections', 1, MAX_CONNECTIONS))
    .option('--out <file>', OUT)
    .addHelpText(
      'after',
      `
An auditor is a person who may read the archive (verify, evidence); a custodian may also hold and erase.
A running server accepts a new agent immediately. If no server runs, it accepts the agent when it starts.

Examples:
  passover auth add agent alice --expires 30d --out alice.creds
  passover auth add person ann`,
    )
    .action(
      action<AuthAddOptions & { subagent: boolean }, [PrincipalKind, string]>(async (context, { subagent, ...options }, kind, name) =>
        (await import('../../auth/manage-principals.js')).runAuthAdd(
          context,
          { ...options, ...(subagent ? {} : { subagent }) },
          kind,
          name,
        ),
      ),
    )
}

function rotate(): Command {
  return new Command('rotate')
    .description('issue new credentials and revoke the previous ones immediately')
    .argument('<name>', 'name, from auth list', recordName)
    .option('--expires <time>', `${EXPIRES} (default: as for the previous credentials)`, durationOption('--expires'))
    .option('--connections <n>', `${CONNECTIONS} (default: unchanged)`, integerOption('--connections', 1, MAX_CONNECTIONS))
    .option('--out <file>', OUT)
    .addHelpText(
      'after',
      '\nProcesses that were started with the path of the credentials file reconnect with the new credentials automatically.',
    )
    .action(
      action<AuthAddOptions, [string]>(async (context, options, name) =>
        (await import('../../auth/manage-principals.js')).runAuthRotate(context, options, name),
      ),
    )
}

function revoke(): Command {
  return new Command('revoke')
    .description('close the connections of an agent, person or service, and refuse its credentials from now on')
    .argument('<name>', 'name, from auth list', recordName)
    .action(
      action<object, [string]>(async (context, _options, name) =>
        (await import('../../auth/manage-principals.js')).runAuthRevoke(context, name),
      ),
    )
}

function list(): Command {
  return new Command('list')
    .description('list credentials: role, key, expiry, revocation')
    .action(action<object, []>(async (context) => (await import('../../auth/manage-principals.js')).runAuthList(context)))
}

function check(): Command {
  return new Command('check')
    .description('test that an agent cannot act outside of its rights on this installation; the test changes nothing')
    .argument('<agent>', 'agent to connect as', nameOption)
    .option('--credentials <file>', "the agent's credentials: a .creds file, or a file with user:password (default: the project's)")
    .addHelpText(
      'after',
      `
Connects as the agent and tries to publish, read and listen outside of its rights, directly and by making the server
publish for it. Your own connection (--as) checks what arrives. Nothing is stored in the stream, deleted or changed.
Exit code 0: the server refused every attempt; 1: an attempt succeeded or could not be tested.

Examples:
  passover auth check alice
  passover auth check alice --credentials alice.creds --as ann`,
    )
    .action(
      action<AuthCheckOptions, [string]>(async (context, options, agent) =>
        (await import('../../auth/check.js')).runAuthCheck(context, options, agent),
      ),
    )
}

function recordName(text: string): string {
  if (SERVICE.test(text)) return text
  try {
    return nameOption(text)
  } catch {
    throw new InvalidArgumentError('Expected a name from `passover auth list`, such as alice or passover.audit.')
  }
}
