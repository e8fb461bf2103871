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
    .description('show what waits for a person: starts, results and changes')
    .option('--from <agent>', 'only what was asked for, however far down, on behalf of this agent', nameOption)
    .option('--mine', 'only what you may decide')
    .option('--limit <n>', 'at most so many', integerOption('--limit', 1, 200), 50)
    .addHelpText(
      'after',
      '\nGrouped by the pass at the top of each chain, the oldest first. If more waits than fits, each agent gets a share of the page. What nobody decides before it expires is denied.\n\nExamples:\n  passover inbox\n  passover approve 0abcdef1 --item apply --only 1,3',
    )
    .action(
      action<InboxOptions, []>(async (context, options) => {
        const { runInbox } = await import('../../passes/inbox.js')
        return runInbox(context, options)
      }),
    )
}
