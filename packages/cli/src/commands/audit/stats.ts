import type { Command } from 'commander'
import { addFilterOptions, type FilterFlags } from '../../audit/filter-options.js'
import { action } from '../../connection/context.js'

/** `passover audit stats` */
export function registerStats(group: Command): void {
  addFilterOptions(group.command('stats').description('count passes and show their durations by month, session, pair, status or error'))
    .addHelpText('after', '\nExample:\n  passover audit stats --since 7d')
    .action(
      action<FilterFlags, []>(async (context, flags) => {
        const { runStats } = await import('../../audit/stats.js')
        return runStats(context, flags)
      }),
    )
}
