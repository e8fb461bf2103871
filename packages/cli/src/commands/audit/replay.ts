import { Command, InvalidArgumentError } from 'commander'
import { action } from '../../connection/context.js'
import { durationOption, integerOption } from '../../input/options.js'
import type { ReplayFlags } from '../../replay/run.js'

/** `passover replay` */
export function replayCommand(): Command {
  return new Command('replay')
    .description('print recorded passes again, judge them by another policy, or request them again in another namespace')
    .argument('[ids...]', 'the passes, or the beginnings of their ids')
    .option('--session <id>', 'all passes of this session')
    .option('--from <agent>', 'of this originator, where several passes share the id')
    .option('--to <agent>', 'of this subagent')
    .option('--speed <n>', 'wait between entries as it was then, n times as fast (default: all at once)', speed)
    .option('--step', 'one entry a key')
    .option('--what-if <policy file>', 'what this policy would have decided about the recorded requests; changes nothing')
    .option('--since <time>', 'with --what-if: only requests of the last so long', durationOption('--since'))
    .option('--archive <folder>', 'a saved archive, instead of the installation')
    .option('--limit <n>', 'with --what-if: show at most so many differences', integerOption('--limit', 1, 100_000), 50)
    .option(
      '--id-window <time>',
      'the id window of the installation (default: as its stream says; of a saved archive: as it was saved with, else 1h)',
      durationOption('--id-window'),
    )
    .option(
      '--to-prefix <prefix>',
      'ask for them again under this subject prefix, by new ids that name the old ones; never in their own namespace',
    )
    .option('--wait <time>', 'with --to-prefix: wait so long for what becomes of each', durationOption('--wait'))
    .option('--dry-run', 'with --to-prefix: say which, and do nothing')
    .option('--yes', 'with --to-prefix: do not ask')
    .addHelpText(
      'after',
      '\nTo write the records of passes again from the stream, use: passover audit rebuild\n\nExamples:\n  passover replay 0abcdef1 --speed 10\n  passover replay --session nightly --archive ./archive\n  passover replay --what-if stricter.json --since 24h\n  passover replay --what-if stricter.json --archive ./archive --json\n  passover replay --session nightly --to-prefix shadow --dry-run',
    )
    .action(
      action<ReplayFlags, [string[]]>(async (context, flags, ids) => {
        const { runReplay } = await import('../../replay/run.js')
        return runReplay(context, flags, ids)
      }),
    )
}

function speed(text: string): number {
  const value = Number(text)
  if (!(value > 0 && value <= 1_000_000))
    throw new InvalidArgumentError('--speed takes a number above 0: 1 is as it was, 10 ten times as fast.')
  return value
}
