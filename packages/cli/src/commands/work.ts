import { Command, Option } from 'commander'
import { action } from '../context.js'
import { usage } from '../failure.js'
import { durationOption, nameOption, wholeNumber } from '../options.js'

interface WorkOptions {
  concurrency: number
  killAfter: number
}

/** `passover work <agent> -- <command…>` */
export function workCommand(): Command {
  return new Command('work')
    .description('be a subagent: run a command for every pass')
    .argument('<agent>', 'the name to work under', nameOption)
    .argument('[command...]', 'the command and its arguments, after --')
    .option('--concurrency <n>', 'passes at a time', wholeNumber('--concurrency', 1, 1000), 1)
    .addOption(
      new Option('--kill-after <time>', 'SIGKILL so long after SIGTERM, when a pass is ended')
        .argParser(durationOption('--kill-after'))
        .default(5_000, '5s'),
    )
    .addHelpText(
      'after',
      `
The command gets the request as JSON on stdin, and PASSOVER_PASS_ID, PASSOVER_ORIGINATOR, PASSOVER_REASON,
PASSOVER_ATTEMPT, PASSOVER_DEADLINE, PASSOVER_PARENT and others in its environment. Its end is the pass's:
  exit 0, text                      completed, with the text
  exit 0, JSON with a status        that WorkOutput; E021 where it is none
  not 0, JSON that is a WorkOutput  that WorkOutput
  not 0, anything else              E011, with the end of stderr
Ctrl-C finishes what runs and stops; a second one stops at once.

Examples:
  passover work echo -- cat
  passover work lint --concurrency 4 -- node lint-agent.js`,
    )
    .action(
      action<WorkOptions, [string, string[]]>(async (context, options, agent, command) => {
        if (command.length === 0) throw usage('which command?', `passover work ${agent} -- <command> [arguments]`)
        const { runWorker } = await import('../work/worker.js')
        return runWorker(context, { agent, command, concurrency: options.concurrency, kill_after_ms: options.killAfter })
      }),
    )
}
