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
    .description('a live view of queued, running and held passes, the last minute, and the agents')
    .addOption(
      new Option('--interval <time>', 'how often it is refreshed').argParser(durationOption('--interval', 3_600_000)).default(2_000, '2s'),
    )
    .option('--once', 'print it once (default if stdout is not a terminal, and with --json)')
    .addHelpText('after', '\nCtrl-C ends it. With --jsonl, each refresh prints a document.\n\nExample:\n  passover top --interval 5s')
    .action(
      action<TopOptions, []>(async (context, { interval, once }) => {
        const { runTop } = await import('../../passes/top.js')
        return runTop(context, { interval_ms: interval, once: once === true })
      }),
    )
}
