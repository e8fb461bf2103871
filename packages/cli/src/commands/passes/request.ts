import { Command, Option } from 'commander'
import { action } from '../../connection/context.js'
import { usage } from '../../errors.js'
import { durationOption, nameOption, repeatableOption } from '../../input/options.js'
import type { RequestOptions } from '../../passes/request.js'

type GivenOptions = Omit<RequestOptions, 'to' | 'objective'> & { to?: string; objective?: string }

/** Maximum timeout that a request may ask for (`max_timeout_ms`): 24 hours. */
const MAX_TIMEOUT_MS = 86_400_000

/** `passover request` */
export function requestCommand(): Command {
  return new Command('request')
    .description('pass work to a subagent, wait, and print what comes back')
    .argument('[agent]', 'the subagent', nameOption)
    .argument('[objective]', 'what is to be done; - reads it from stdin')
    .option('--from <agent>', 'who asks (default: you)', nameOption)
    .option('--to <agent>', 'the subagent, in place of the first argument', nameOption)
    .option('--objective <text>', 'what is to be done, in place of the second argument')
    .option('--reason <text>', 'why it is passed over', 'request')
    .option('--background <text>', 'what the subagent should know besides')
    .option('--file <path...>', 'files to pass along, binary ones as base64 (several, or several times)', repeatableOption)
    .option(
      '--timeout <time>',
      'how long it may take in all, a hold not counted: 500ms, 30s, 5m (at most 24h; default: the policy’s, 30s)',
      durationOption('--timeout', MAX_TIMEOUT_MS),
    )
    .addOption(new Option('--priority <slot>', 'how urgent').choices(['high', 'medium', 'low']).default('medium'))
    .option('--constraint <word>', 'what the subagent must not do, such as read_only (several times)', repeatableOption)
    .option('--session <id>', 'the session it belongs to')
    .option('--id <id>', 'its id, so that asking again gets the same result (9 to 64 of A-Z a-z 0-9 _ -)')
    .option('--hold', 'a person must approve before the work starts')
    .option('--auto-return', 'deliver the result also where something critical was found')
    .option('--no-wait', 'print the id and do not wait')
    .addHelpText(
      'after',
      `
Examples:
  passover request echo "hello"
  passover request --from alice --to echo --objective "hello"
  git diff | passover request audit - --reason review --file src/main.ts --timeout 2m`,
    )
    .action(
      action<GivenOptions, [string | undefined, string | undefined]>(async (context, options, agent, objective) => {
        const to = oneOf('agent', agent, { flag: '--to', value: options.to })
        const what = oneOf('objective', objective, { flag: '--objective', value: options.objective })
        const { runRequest } = await import('../../passes/request.js')
        return runRequest(context, { ...options, to, objective: what })
      }),
    )
}

/** Returns the value of an argument or its flag. Throws CliFailure E042 if both or neither are given. */
function oneOf(name: string, argument: string | undefined, { flag, value }: { flag: string; value: string | undefined }): string {
  const given = argument ?? value
  if (argument !== undefined && value !== undefined)
    throw usage(`the ${name} is given twice: ${argument}, and ${flag} ${value}`, 'give it once')
  if (given === undefined) throw usage(`the ${name} is missing`, 'passover request <agent> "<objective>"')
  return given
}
