import { Command } from 'commander'
import { action } from '../../connection/context.js'
import { nameOption } from '../../input/options.js'

interface LogsOptions {
  from?: string
  to?: string
  follow?: true
}

/** `passover logs <id>` */
export function logsCommand(): Command {
  return new Command('logs')
    .description('print the timeline of one pass line by line, with the complete error')
    .argument('<id>', 'pass id, or its first characters')
    .option('--from <agent>', 'originator, if several passes have this id', nameOption)
    .option('--to <agent>', 'subagent, if several passes have this id', nameOption)
    .option('--follow', 'print entries as they arrive, until the pass has ended')
    .addHelpText(
      'after',
      '\nIf a command of `passover work` fails, the error of the pass contains the last part of its stderr.\nWith --jsonl, each entry is one document.\n\nExample:\n  passover logs 0abcdef1 --follow',
    )
    .action(
      action<LogsOptions, [string]>(async (context, { from, to, follow }, id) => {
        const { runLogs } = await import('../../passes/logs.js')
        return runLogs(context, { id, from, to }, follow === true)
      }),
    )
}
