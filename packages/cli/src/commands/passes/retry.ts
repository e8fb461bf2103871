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
    .description('ask again for a pass that failed: the same request and context, under a new id')
    .argument('<id>', 'its id, or the beginning of it')
    .option('--from <agent>', 'of this originator, where several passes share the id', nameOption)
    .option('--to <agent>', 'of this subagent', nameOption)
    .option('--no-wait', 'print the new id and do not wait')
    .addHelpText(
      'after',
      `
passover show names the old pass in the new one (retry of). The new pass has the same originator; if the server checks names,
you need that agent's credentials. A pass that has not ended, or that completed, is refused (E031).
A dead letter stays in passover dlq; passover dlq requeue asks for its work once, however often it is called.

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
