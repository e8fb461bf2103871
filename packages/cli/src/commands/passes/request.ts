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
    .description('hand work to a subagent, wait, and print the result')
    .argument('[agent]', 'subagent', nameOption)
    .argument('[objective]', 'objective of the work; - reads it from stdin')
    .option('--from <agent>', 'originator (default: you)', nameOption)
    .option('--to <agent>', 'subagent, instead of the first argument', nameOption)
    .option('--objective <text>', 'objective, instead of the second argument')
    .option('--reason <text>', 'reason for the request', 'request')
    .option('--background <text>', 'background information for the subagent')
    .option('--file <path...>', 'files to include, binary files as base64 (repeatable)', repeatableOption)
    .option(
      '--timeout <time>',
      'time limit for the pass, not counting the time it is held: 500ms, 30s, 5m (at most 24h; default: from the policy, 30s)',
      durationOption('--timeout', MAX_TIMEOUT_MS),
    )
    .addOption(new Option('--priority <slot>', 'priority').choices(['high', 'medium', 'low']).default('medium'))
    .option('--constraint <word>', 'constraint on the subagent, such as read_only (repeatable)', repeatableOption)
    .option('--session <id>', 'session of the pass')
    .option('--id <id>', 'pass id; repeating the request with the same id returns the same result (9 to 64 characters of A-Z a-z 0-9 _ -)')
    .option('--hold', 'hold the pass until a person approves its start')
    .option('--auto-return', 'deliver the result even if it has critical findings')
    .option('--no-wait', 'print the id without waiting')
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
    throw usage(`the ${name} is given twice: as ${argument} and as ${flag} ${value}`, 'remove one of them')
  if (given === undefined) throw usage(`the ${name} is missing`, 'passover request <agent> "<objective>"')
  return given
}
