import { Command } from 'commander'
import { action, type Context } from '../../connection/context.js'

/** `passover config show` */
export function configCommand(): Command {
  return new Command('config')
    .description('show the settings that commands use')
    .addCommand(
      new Command('show')
        .description('show each setting and its source; credentials are never shown')
        .addHelpText(
          'after',
          '\nThe server: --server > PASSOVER_SERVER > .passover/server.json upward within the repository, if your own `passover up` wrote it > NATS_URL.\nYour own settings are in $XDG_CONFIG_HOME/passover/config.json (else ~/.config): "auto_apply": true, or a list of directories.',
        )
        .action(action(show)),
    )
}

async function show(context: Context): Promise<number> {
  const { searchProject, readUserConfig } = await import('@passover/sdk/internal/project')
  const { CliFailure } = await import('../../errors.js')
  const { resolveServer } = await import('../../connection/settings.js')
  const { terminal, directory, flags, env, person } = context
  const user = readUserConfig()
  const { ignored } = searchProject(directory)
  const server = serverOrNone()
  const personFrom = flags.as === undefined ? (env.PASSOVER_AS === undefined ? 'system user' : 'PASSOVER_AS') : '--as'
  const settings = [
    { name: 'server', value: server?.url ?? null, from: server?.from ?? 'none' },
    { name: 'person', value: person, from: personFrom },
    { name: 'directory', value: directory, from: flags.directory === undefined ? 'working directory' : '--directory' },
    { name: 'auto_apply', value: user.config.auto_apply, from: user.path },
  ]
  const faults = [...ignored, ...(user.fault === undefined ? [] : [{ path: user.path, why: user.fault, hint: 'correct or remove it' }])]
  terminal.show({ settings, ignored: faults }, () =>
    [
      ...settings.map(({ name, value, from }) => `${name.padEnd(12)} ${textOf(value)}  ${terminal.colors.dim(`(${from})`)}`),
      ...faults.map(({ path, why, hint }) => `${terminal.colors.yellow('!')} ${path} is ignored: ${why}. ${hint}`),
    ].join('\n'),
  )
  return 0

  function serverOrNone() {
    try {
      return resolveServer(flags, env, directory)
    } catch (error) {
      if (error instanceof CliFailure) return undefined
      throw error
    }
  }
}

function textOf(value: string | boolean | string[] | null): string {
  return value === null ? 'none' : Array.isArray(value) ? value.join(', ') : String(value)
}
