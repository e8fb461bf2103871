import { Command } from 'commander'
import type { CheckOptions } from '../auth/check.js'
import { action } from '../context.js'
import { nameOption } from '../options.js'

/** `passover auth …` */
export function authCommand(): Command {
  const command = new Command('auth').description('keys and credentials of agents, people and services; check that agents are isolated')
  for (const child of [check()]) command.addCommand(child)
  return command
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
      action<CheckOptions, [string]>(async (context, options, agent) =>
        (await import('../auth/check.js')).runCheck(context, options, agent),
      ),
    )
}
