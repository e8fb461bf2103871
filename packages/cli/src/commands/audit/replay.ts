import { Command, InvalidArgumentError } from 'commander'
import { action } from '../../connection/context.js'
import { durationOption, integerOption } from '../../input/options.js'
import type { ReplayFlags } from '../../replay/run.js'

/** `passover replay` */
export function replayCommand(): Command {
  return new Command('replay')
    .description('print recorded passes, evaluate them under another policy, or request them again in another namespace')
    .argument('[ids...]', 'pass ids, or their first characters')
    .option('--session <id>', 'all passes of this session')
    .option('--from <agent>', 'originator, if several passes have this id')
    .option('--to <agent>', 'subagent, if several passes have this id')
    .option('--speed <n>', 'keep the recorded pauses between entries, but n times faster (default: no pauses)', speed)
    .option('--step', 'print one entry for each key press')
    .option('--what-if <policy file>', 'show how this policy would have decided the recorded requests; changes nothing')
    .option('--since <time>', 'with --what-if: only requests since this time', durationOption('--since'))
    .option('--archive <folder>', 'read a saved archive instead of the installation')
    .option('--limit <n>', 'with --what-if: maximum number of differences to show', integerOption('--limit', 1, 100_000), 50)
    .option(
      '--id-window <time>',
      'id window of the installation (default: read from its stream; for a saved archive: the saved value, else 1h)',
      durationOption('--id-window'),
    )
    .option(
      '--to-prefix <prefix>',
      'request them again under this subject prefix, with new ids that refer to the old ones; it must differ from their prefix',
    )
    .option('--wait <time>', 'with --to-prefix: how long to wait for each result', durationOption('--wait'))
    .option('--dry-run', 'with --to-prefix: list the requests without sending them')
    .option('--yes', 'with --to-prefix: do not ask for confirmation')
    .addHelpText(
      'after',
      '\nTo rebuild the records of passes from the stream, use: passover audit rebuild\n\nExamples:\n  passover replay 0abcdef1 --speed 10\n  passover replay --session nightly --archive ./archive\n  passover replay --what-if stricter.json --since 24h\n  passover replay --what-if stricter.json --archive ./archive --json\n  passover replay --session nightly --to-prefix shadow --dry-run',
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
    throw new InvalidArgumentError('--speed takes a number above 0: 1 is the recorded speed, 10 is ten times as fast.')
  return value
}
