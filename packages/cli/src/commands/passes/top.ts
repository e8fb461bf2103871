import { Command, Option } from 'commander'
import { action } from '../../connection/context.js'
import { durationOption } from '../../input/options.js'

interface TopOptions {
  interval: number
  once?: true
}

/** `passover top` */
export function topCommand(): Command {
  return new Command('top')
    .description('show a live view of queued, running and held passes, the last minute, and the agents')
    .addOption(new Option('--interval <time>', 'refresh interval').argParser(durationOption('--interval', 3_600_000)).default(2_000, '2s'))
    .option('--once', 'print the view once (default with --json or if stdout is not a terminal)')
    .addHelpText(
      'after',
      '\nPress Ctrl-C to stop. With --jsonl, each refresh prints one document.\n\nExample:\n  passover top --interval 5s',
    )
    .action(
      action<TopOptions, []>(async (context, { interval, once }) => {
        const { runTop } = await import('../../passes/top.js')
        return runTop(context, { interval_ms: interval, once: once === true })
      }),
    )
}
