import { Command } from 'commander'
import { action } from '../../connection/context.js'
import { integerOption, nameOption } from '../../input/options.js'

interface InboxOptions {
  from?: string
  mine?: true
  limit: number
}

/** `passover inbox` */
export function inboxCommand(): Command {
  return new Command('inbox')
    .description('list items that wait for a decision: starts, results and changes')
    .option('--from <agent>', 'only items of passes from this root originator, including their descendants', nameOption)
    .option('--mine', 'only items that you may decide')
    .option('--limit <n>', 'maximum number of results', integerOption('--limit', 1, 200), 50)
    .addHelpText(
      'after',
      '\nItems are grouped by root pass, oldest first. If there are more items than --limit, the page has\nsome items of each agent. Items without a decision are denied when they expire.\n\nExamples:\n  passover inbox\n  passover approve 0abcdef1 --item apply --only 1,3',
    )
    .action(
      action<InboxOptions, []>(async (context, options) => {
        const { runInbox } = await import('../../passes/inbox.js')
        return runInbox(context, options)
      }),
    )
}
