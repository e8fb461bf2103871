import type { Command } from 'commander'
import { action } from '../context.js'
import { type FilterFlags, filterOptions } from './filter-options.js'

/** `passover audit stats` */
export function registerStats(group: Command): void {
  filterOptions(group.command('stats').description('count passes, and how long they took, by month, session, pair, status and error'))
    .addHelpText('after', '\nExample:\n  passover audit stats --since 7d')
    .action(
      action<FilterFlags, []>(async (context, flags) => {
        const { runStats } = await import('./stats.js')
        return runStats(context, flags)
      }),
    )
}
