import { Command, Option } from 'commander'
import { action } from '../../connection/context.js'
import { isNodeError } from '../../connection/project-directory.js'
import { usage } from '../../errors.js'
import { durationOption, integerOption } from '../../input/options.js'
import type { ChaosFlags } from './run-chaos.js'

/** `passover chaos` */
export function chaosCommand(): Command {
  return new Command('chaos')
    .description('test the delivery guarantees: run separate servers and processes, inject faults under load, then check the stored data')
    .option('--minutes <n>', 'duration of load and faults', integerOption('--minutes', 1, 1_440), 2)
    .option('--seed <n>', 'seed of the fault schedule (default: a random one, printed)', integerOption('--seed', 0, 2 ** 31))
    .option('--faults <names>', 'only these kinds of faults, separated by commas (default: all that this machine supports)')
    .addOption(new Option('--nodes <n>', 'number of servers: a cluster of three, or one').choices(['3', '1']).default('3'))
    .option('--rate <n>', 'requests per second', integerOption('--rate', 1, 1_000), 12)
    .option('--soak', 'watch memory, descriptors, consumers and subscriptions, and report growth')
    .option('--isolated', 'give each agent its own account')
    .addOption(
      new Option('--network <kind>', 'own: use network namespaces if they are allowed; loopback: never use them')
        .choices(['own', 'loopback'])
        .default('own'),
    )
    .option('--slack <time>', 'tolerance for late ends of passes on a busy machine', durationOption('--slack'))
    .option(
      '--id-window <time>',
      'id window of the installation; closed passes leave the stream after two windows (default: 15s)',
      durationOption('--id-window'),
    )
    .option('--report <folder>', 'folder for report.md and report.json (default: a temporary folder)')
    .addHelpText(
      'after',
      '\nThe same seed and options give the same schedule. Ctrl-C ends load and faults early; the command still checks the requests made so far.\nThe command starts its own servers and processes in its own folder, and needs no running server. The exit code is 0 only if no guarantee was violated.\n\nExamples:\n  passover chaos --minutes 2 --seed 7\n  passover chaos --minutes 60 --soak --report chaos-report',
    )
    .action(
      action<ChaosFlags, []>(async (context, flags) => {
        const { runChaosCommand } = await import('./run-chaos.js').catch(refuseWithoutChaosPackage)
        return runChaosCommand(context, flags)
      }),
    )
}

/** Explains that the container image has no @passover/chaos. It contains only the bundle, and that package starts its own files as processes. */
function refuseWithoutChaosPackage(error: unknown): never {
  if (!isNodeError(error) || error.code !== 'ERR_MODULE_NOT_FOUND' || !error.message.includes('@passover/chaos')) throw error
  throw usage('passover chaos is not part of the container image', 'run it where the package is installed: npx @passover/cli chaos')
}
