import { Command, Option } from 'commander'
import { action } from '../../connection/context.js'
import { usage } from '../../errors.js'
import { durationOption, integerOption, newAgentOption } from '../../input/options.js'

interface WorkOptions {
  concurrency: number
  killAfter: number
  replicas: number
  brief?: true
  writable: string[]
}

/** `passover work <agent> -- <command…>` */
export function workCommand(): Command {
  return (
    new Command('work')
      .description('work as a subagent: run a command for every pass')
      .argument('<agent>', 'name of the subagent', newAgentOption)
      .argument('[command...]', 'command and its arguments, after --')
      .option('--concurrency <n>', 'maximum number of concurrent passes', integerOption('--concurrency', 1, 1000), 1)
      .option('--replicas <n>', 'number of worker processes, each with --concurrency passes', integerOption('--replicas', 1, 100), 1)
      // For the worker processes of --replicas.
      .addOption(new Option('--brief', 'print one line at start').hideHelp())
      .addOption(
        new Option('--kill-after <time>', 'time between SIGTERM and SIGKILL when a pass ends early')
          .argParser(durationOption('--kill-after'))
          .default(5_000, '5s'),
      )
      .option(
        '--writable <directory>',
        'directory that stays writable for read-only passes (repeatable)',
        (value: string, all: string[]) => [...all, value],
        [],
      )
      .addHelpText(
        'after',
        `
The command gets the request as JSON on stdin, and PASSOVER_PASS_ID, PASSOVER_ORIGINATOR, PASSOVER_REASON,
PASSOVER_ATTEMPT, PASSOVER_DEADLINE, PASSOVER_PARENT and others in its environment. When it exits, the pass ends:
  exit 0, text                      completed, with the text
  exit 0, JSON with a status        that WorkOutput; E021 if it is not a valid one
  not 0, JSON that is a WorkOutput  that WorkOutput
  not 0, anything else              E011, with the last part of stderr
The rights of the pass are in the environment and in "rights" of the request: PASSOVER_CAN_MODIFY_FILES, PASSOVER_CAN_RUN_TOOLS,
PASSOVER_TOOLS (unset: all), PASSOVER_CONSTRAINTS. PASSOVER_ENFORCED names the constraints that are enforced:
  read_only          the directory is read-only, unless the policy lets the subagent modify files (can_modify_files).
                     The home directory, /tmp and --writable directories stay writable, the rest of the system does not.
                     On a machine without namespaces, a change of files in the directory ends the pass with E013
  no_external_calls  no network and no UNIX sockets, also not to the NATS server: the command cannot request passes
A policy's max_memory_mb (E014) and max_compute_time_ms (E010) apply to the command with all processes it starts. When a
pass ends, the worker stops them. At start, the worker prints how this machine enforces each constraint; passover doctor prints it too.
Ctrl-C finishes running commands and stops; a second Ctrl-C stops immediately.
With --replicas, a worker that dies is started again after a pause that doubles from 0.5 to 30 s. The output of each worker is prefixed
with its number; passover agents counts the workers. The workers stop when this command ends or is killed. With PASSOVER_HEALTH_PORT, worker 1
serves its health at that port, worker 2 at the next one, and so on.

Examples:
  passover work echo -- printenv PASSOVER_OBJECTIVE
  passover work lint --concurrency 4 --replicas 2 -- node lint-agent.js`,
      )
      .action(
        action<WorkOptions, [string, string[]]>(async (context, options, agent, command) => {
          if (command.length === 0) throw usage('the command is missing', `passover work ${agent} -- <command> [arguments]`)
          const { concurrency, killAfter: kill_after_ms, writable, replicas, brief = false } = options
          const request = { agent, command, concurrency, kill_after_ms, writable, brief }
          if (replicas > 1) return (await import('../../work/replicas.js')).runReplicas(context, request, replicas)
          return (await import('../../work/worker.js')).runWorker(context, request)
        }),
      )
  )
}
