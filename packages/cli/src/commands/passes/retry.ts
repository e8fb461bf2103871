import { Command } from 'commander'
import { action } from '../../connection/context.js'
import { nameOption } from '../../input/options.js'

interface RetryOptions {
  from?: string
  to?: string
  wait: boolean
}

/** `passover retry <id>` */
export function retryCommand(): Command {
  return new Command('retry')
    .description('request a failed pass again with the same context and a new id')
    .argument('<id>', 'pass id, or its first characters')
    .option('--from <agent>', 'originator, if several passes have this id', nameOption)
    .option('--to <agent>', 'subagent, if several passes have this id', nameOption)
    .option('--no-wait', 'print the new id without waiting')
    .addHelpText(
      'after',
      `
passover show prints the id of the failed pass as "retry of". The new pass has the same originator; on an isolated installation
you need that agent's credentials. A pass that is still open or that completed cannot be retried (E031).
A retry does not remove a dead letter from passover dlq. passover dlq requeue requests its work only once, even if you run it several times.

Example:
  passover retry 0abcdef1`,
    )
    .action(
      action<RetryOptions, [string]>(async (context, { from, to, wait }, id) => {
        const { runRetry } = await import('../../passes/retry.js')
        return runRetry(context, { id, from, to }, wait)
      }),
    )
}
