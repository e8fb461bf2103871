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
    .description('what happened with one pass, line by line: the timeline of `show`, and the whole error')
    .argument('<id>', 'its id, or the beginning of it')
    .option('--from <agent>', 'of this originator, where several passes share the id', nameOption)
    .option('--to <agent>', 'of this subagent', nameOption)
    .option('--follow', 'print entries as they come, until the pass has ended')
    .addHelpText(
      'after',
      '\nIf a command of `passover work` fails, the error of the pass contains the end of its stderr.\nWith --jsonl, each entry is a document.\n\nExample:\n  passover logs 0abcdef1 --follow',
    )
    .action(
      action<LogsOptions, [string]>(async (context, { from, to, follow }, id) => {
        const { runLogs } = await import('../../passes/logs.js')
        return runLogs(context, { id, from, to }, follow === true)
      }),
    )
}
