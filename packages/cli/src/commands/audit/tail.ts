import type { Command } from 'commander'
import { addFilterOptions } from '../../audit/filter-options.js'
import type { TailFlags } from '../../audit/tail.js'
import { action } from '../../connection/context.js'
import { integerOption } from '../../input/options.js'

/** `passover audit tail` */
export function registerTail(group: Command): void {
  addFilterOptions(group.command('tail').description('print the audit entry of each pass when it ends'))
    .option('--count <n>', 'exit after this many passes', integerOption('--count', 1, 1_000_000))
    .option('--custody', 'also print holds, erasures, and removals from the archive')
    .addHelpText(
      'after',
      '\nPrints passes that end after the start of the command, or after the time in --since. After a lost connection it continues without a gap.\nPress Ctrl-C to stop. --jsonl prints one document per line as it arrives; --json prints one list at the end.\n\nExamples:\n  passover audit tail --to audit --jsonl\n  passover audit tail --custody --since 7d',
    )
    .action(
      action<TailFlags, []>(async (context, flags) => {
        const { runTail } = await import('../../audit/tail.js')
        return runTail(context, flags)
      }),
    )
}
