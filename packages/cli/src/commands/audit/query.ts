import type { Command } from 'commander'
import { addFilterOptions } from '../../audit/filter-options.js'
import type { QueryFlags } from '../../audit/query.js'
import { action } from '../../connection/context.js'
import { integerOption } from '../../input/options.js'

/** `passover audit query` */
export function registerQuery(group: Command): void {
  addFilterOptions(group.command('query').description('search recorded passes of any age, newest first'))
    .option('--text <words>', 'case-insensitive text search in reason, objective and summary')
    .option('--limit <n>', 'maximum number of results', integerOption('--limit', 1, 1_000_000), 50)
    .option('--cursor <cursor>', 'continue after the previous page (same filters)')
    .option('--all', 'fetch all pages; with --jsonl results are printed as they arrive')
    .addHelpText(
      'after',
      '\nExamples:\n  passover audit query --from alice --to audit --since 7d\n  passover audit query --denied --decided-by carol --json\n  passover audit query --text "login flow" --all --jsonl',
    )
    .action(
      action<QueryFlags, []>(async (context, flags) => {
        const { runQuery } = await import('../../audit/query.js')
        return runQuery(context, flags)
      }),
    )
}
