import { Command } from 'commander'
import { action } from '../../connection/context.js'

interface InitOptions {
  packages?: string
}

/** `passover init [directory]` */
export function initCommand(): Command {
  return new Command('init')
    .description('create a small project: two agents in TypeScript, a policy, and their configuration')
    .argument('[directory]', 'directory of the project (default: the working directory); created if it does not exist')
    .option('--packages <folder>', 'install from the tarballs that `npm run pack` wrote to this folder, instead of the registry')
    .addHelpText(
      'after',
      `
Writes agents/ (greeter and alice, with a tsconfig.json), .opencode/pass-over.json, and package.json and .gitignore if they do not
exist. No file is ever overwritten: if one of the agents or a policy exists, the command names it and writes nothing.

Example:
  passover init my-agents`,
    )
    .action(
      action<InitOptions, [string | undefined]>(async (context, { packages }, directory) => {
        const { runInit } = await import('../../local/create-project.js')
        return runInit(context, { directory, packages })
      }),
    )
}
