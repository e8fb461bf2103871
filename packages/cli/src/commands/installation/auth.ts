import { Argument, Command, InvalidArgumentError, Option } from 'commander'
import type { AuthCheckOptions } from '../../auth/check.js'
import type { TlsOptions } from '../../auth/init.js'
import type { AuthAddOptions, PrincipalKind } from '../../auth/manage-principals.js'
import { action } from '../../connection/context.js'
import { durationOption, integerOption, nameOption } from '../../input/options.js'

export const TLS_HELP = 'encrypt connections, with a certificate of an own authority (for development)'
export const TLS_CERT_HELP = 'certificate of the server, PEM'
export const TLS_KEY_HELP = 'its private key, PEM'
export const TLS_CA_HELP = 'the authority that signed it, PEM (default: one that the system trusts)'

const EXPIRES = 'validity, such as 12h or 30d'
const CONNECTIONS = 'connections that an agent may have at a time'
const MAX_CONNECTIONS = 65_536
const OUT = 'where to write the credentials besides, mode 0600'
/** Names of services in the records. Names of agents and people contain no dot. */
const SERVICE = /^passover\.(?:dispatcher|audit|notifier|gateway)$/

/** `passover auth …` */
export function authCommand(): Command {
  const command = new Command('auth')
    .description('keys and credentials of agents, people and services; check that agents are isolated')
    .addHelpText(
      'after',
      `
Each agent gets an account of its own at the server, people and services are users of the core account. Keys and
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
    .addHelpText(
      'after',
      '\nRefuses where there are keys already. Writes the part of a nats-server configuration that isolation needs, too.',
    )
    .action(action<TlsOptions, []>(async (context, options) => (await import('../../auth/init.js')).runAuthInit(context, options)))
}

function add(): Command {
  return new Command('add')
    .description('issue credentials for an agent, a person or a service')
    .addArgument(new Argument('<kind>', 'what it is').choices(['agent', 'person', 'auditor', 'custodian', 'service']))
    .argument('<name>', 'its name; of a service: dispatcher, audit, notifier or gateway', nameOption)
    .addOption(
      new Option('--originates <when>', 'whether it may pass over by itself (default: always)').choices([
        'always',
        'within_a_pass',
        'never',
      ]),
    )
    .option('--no-subagent', 'passes may not go to it')
    .option('--expires <time>', EXPIRES, durationOption('--expires'))
    .option('--connections <n>', `${CONNECTIONS} (default: 256)`, integerOption('--connections', 1, MAX_CONNECTIONS))
    .option('--out <file>', OUT)
    .addHelpText(
      'after',
      `
An auditor is a person who may read the archive (verify, evidence); a custodian may also hold and erase.
A running server knows an agent at once; without one, when it starts.

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
    .description('issue new credentials in place, and revoke the ones before at once')
    .argument('<name>', 'as list shows it', recordName)
    .option('--expires <time>', `${EXPIRES} (default: as long as the ones before)`, durationOption('--expires'))
    .option('--connections <n>', `${CONNECTIONS} (default: as before)`, integerOption('--connections', 1, MAX_CONNECTIONS))
    .option('--out <file>', OUT)
    .addHelpText('after', '\nProcesses that read the credentials file by its path reconnect with the new ones by themselves.')
    .action(
      action<AuthAddOptions, [string]>(async (context, options, name) =>
        (await import('../../auth/manage-principals.js')).runAuthRotate(context, options, name),
      ),
    )
}

function revoke(): Command {
  return new Command('revoke')
    .description('close the connections of an agent, person or service, and let it in no more')
    .argument('<name>', 'as list shows it', recordName)
    .action(
      action<object, [string]>(async (context, _options, name) =>
        (await import('../../auth/manage-principals.js')).runAuthRevoke(context, name),
      ),
    )
}

function list(): Command {
  return new Command('list')
    .description('show who has credentials: role, key, expiry, revoked')
    .action(action<object, []>(async (context) => (await import('../../auth/manage-principals.js')).runAuthList(context)))
}

function check(): Command {
  return new Command('check')
    .description('try, harmlessly, what an agent must not be able to do on this installation')
    .argument('<agent>', 'the agent to connect as', nameOption)
    .option('--credentials <file>', "the agent's credentials: a .creds file, or a file with user:password (default: those of the project)")
    .addHelpText(
      'after',
      `
Connects as the agent and tries to publish, read and listen outside of its rights, directly and by making the server
publish for it. Your own connection (--as) watches what arrives. Nothing is stored in the stream, deleted or changed.
Exits 0 when nothing is possible, 1 when something is, or could not be tried.

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
    throw new InvalidArgumentError('A name as `passover auth list` shows it, such as alice or passover.audit.')
  }
}
