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
    .description('print events of passes as they happen')
    .argument('[id]', 'only events of this pass')
    .option('--from <agent>', 'only passes from this originator')
    .option('--to <agent>', 'only passes to this subagent')
    .option('--count <n>', 'exit after this many events', integerOption('--count', 1, 1_000_000))
    .option('--all', 'start with all stored events')
    .option('--notifications', 'only notifications: returns selected by the policy, and items that wait for a person')
    .option('--bell', 'ring the terminal bell at each notification')
    .addHelpText(
      'after',
      '\nPress Ctrl-C to stop. --jsonl prints one document per line as it arrives; --json prints one list at the end.\n\nExample:\n  passover watch --to audit',
    )
    .action(
      action<WatchOptions, [string | undefined]>(async (context, options, id) => {
        const { runWatch } = await import('../../passes/watch.js')
        return runWatch(context, { ...options, ...(id === undefined ? {} : { id }) })
      }),
    )
}
