import { Command, Option } from 'commander'
import { action } from '../../connection/context.js'
import { isNodeError } from '../../connection/project-directory.js'
import { usage } from '../../errors.js'
import { durationOption, integerOption } from '../../input/options.js'
import type { ChaosFlags } from './run-chaos.js'

/** `passover chaos` */
export function chaosCommand(): Command {
  return new Command('chaos')
    .description('prove the promises: servers and processes of its own under load and trouble, then a checker reads what they left')
    .option('--minutes <n>', 'how long there is load and trouble', integerOption('--minutes', 1, 1_440), 2)
    .option('--seed <n>', 'which schedule (default: a new one, printed)', integerOption('--seed', 0, 2 ** 31))
    .option('--faults <names>', 'only these, by commas (default: all that this machine can do)')
    .addOption(new Option('--nodes <n>', 'servers: a cluster of three, or one').choices(['3', '1']).default('3'))
    .option('--rate <n>', 'passes asked for a second', integerOption('--rate', 1, 1_000), 12)
    .option('--soak', 'watch memory, descriptors, consumers and subscriptions, and say which grow')
    .option('--isolated', 'each agent in an account of its own')
    .addOption(
      new Option('--network <kind>', 'own: network namespaces where they are allowed; loopback: never')
        .choices(['own', 'loopback'])
        .default('own'),
    )
    .option('--slack <time>', 'how much later a pass may end because the machine is busy with other things', durationOption('--slack'))
    .option(
      '--id-window <time>',
      'how long an id counts as fresh; closed passes leave the stream after two (default: 15s)',
      durationOption('--id-window'),
    )
    .option('--report <folder>', 'where report.md and report.json go (default: a temporary folder)')
    .addHelpText(
      'after',
      '\nThe same seed and options give the same schedule. Ctrl-C ends load and trouble; what was asked for is checked all the same.\nIt touches nothing but its own processes and folder, and needs no server. Exit 0 only if no promise was broken.\n\nExamples:\n  passover chaos --minutes 2 --seed 7\n  passover chaos --minutes 60 --soak --report chaos-report',
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
  throw usage('passover chaos is not in the container image', 'run it where the package is installed: npx @passover/cli chaos')
}
