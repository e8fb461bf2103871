import type { Command } from 'commander'
import { addFilterOptions } from '../../audit/filter-options.js'
import type { TailFlags } from '../../audit/tail.js'
import { action } from '../../connection/context.js'
import { integerOption } from '../../input/options.js'

/** `passover audit tail` */
export function registerTail(group: Command): void {
  addFilterOptions(group.command('tail').description('follow passes as they end, each as its audit entry has it'))
    .option('--count <n>', 'end after so many', integerOption('--count', 1, 1_000_000))
    .option('--custody', 'also what is held, erased, and removed from the archive')
    .addHelpText(
      'after',
      '\nBegins with those that end from now on (with --since: from then). Goes on after a lost connection without a gap.\nEnds with Ctrl-C. With --jsonl one document a line as it comes; with --json one list at the end.\n\nExamples:\n  passover audit tail --to audit --jsonl\n  passover audit tail --custody --since 7d',
    )
    .action(
      action<TailFlags, []>(async (context, flags) => {
        const { runTail } = await import('../../audit/tail.js')
        return runTail(context, flags)
      }),
    )
}
