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
What its pass may do is in its environment and in the request's "rights": PASSOVER_CAN_MODIFY_FILES, PASSOVER_CAN_RUN_TOOLS,
PASSOVER_TOOLS (unset: all), PASSOVER_CONSTRAINTS; PASSOVER_ENFORCED names what the system itself holds it to:
  read_only          its directory is read-only, unless the policy lets the subagent modify files (can_modify_files);
                     where that cannot be made so, a command that changes files there ends its pass with E013
  no_external_calls  it has no network, not even to this server: it cannot pass over then
A policy's max_memory_mb (E014) and max_compute_time_ms (E010) bind the command with all that it starts; its end,
however it comes, reaches its process group: what it put into a session of its own (setsid, a daemon) goes on.
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
