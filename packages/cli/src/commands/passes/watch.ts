import { Command } from 'commander'
import { action } from '../../connection/context.js'
import { integerOption } from '../../input/options.js'

interface WatchOptions {
  from?: string
  to?: string
  count?: number
  all?: true
  notifications?: true
  bell?: true
}

/** `passover watch` */
export function watchCommand(): Command {
  return new Command('watch')
    .description('follow what happens, as it happens')
    .argument('[id]', 'only this pass')
    .option('--from <agent>', 'only what this agent asked for')
    .option('--to <agent>', 'only what this subagent was asked for')
    .option('--count <n>', 'end after so many', integerOption('--count', 1, 1_000_000))
    .option('--all', 'begin with everything that is stored')
    .option('--notifications', 'only returns that policy wants told, and what waits for a person')
    .option('--bell', 'ring at each notification, on a terminal')
    .addHelpText(
      'after',
      '\nEnds with Ctrl-C. With --jsonl one document a line as it comes; with --json one list at the end.\n\nExample:\n  passover watch --to audit',
    )
    .action(
      action<WatchOptions, [string | undefined]>(async (context, options, id) => {
        const { runWatch } = await import('../../passes/watch.js')
        return runWatch(context, { ...options, ...(id === undefined ? {} : { id }) })
      }),
    )
}
