import { Command } from 'commander'
import { action } from '../context.js'

interface InitOptions {
  packages?: string
}

/** `passover init [directory]` */
export function initCommand(): Command {
  return new Command('init')
    .description('make a small project: two agents in TypeScript, a policy, and what they need')
    .argument('[directory]', 'where (default: here); it is made where it is missing')
    .option('--packages <folder>', 'install from the tarballs that `npm run pack` made there, not from the registry')
    .addHelpText(
      'after',
      `
Writes agents/ (greeter and alice, with a tsconfig.json), .opencode/pass-over.json, and where they are missing package.json and
.gitignore. No file is ever overwritten: where one of the agents or a policy exists, it says which and writes nothing.

Example:
  passover init my-agents`,
    )
    .action(
      action<InitOptions, [string | undefined]>(async (context, { packages }, directory) => {
        const { runInit } = await import('../init/run.js')
        return runInit(context, { directory, packages })
      }),
    )
}
