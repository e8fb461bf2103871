import { Command, InvalidArgumentError } from 'commander'
import { action } from '../../connection/context.js'
import { durationOption, integerOption } from '../../input/options.js'
import type { VerifyFlags } from '../../verify/run.js'

/** `passover verify` */
export function verifyCommand(): Command {
  return new Command('verify')
    .description('check that everything stored holds together: chain, digests, returns, ancestry, policy, approvals')
    .option('--archive <folder>', 'an archive that was saved, instead of the installation; needs no server')
    .option('--save <folder>', 'also save archive and stream there, to be verified elsewhere')
    .option('--pass <id>', 'only this pass, and those above it')
    .option('--from <agent>', 'of this originator, where several passes share the id')
    .option('--to <agent>', 'of this subagent')
    .option(
      '--since <sequence>',
      'only from this sequence on; what began before is not judged',
      integerOption('--since', 1, Number.MAX_SAFE_INTEGER),
    )
    .option('--expect <value>', 'a chain value of an earlier run: it must be met again', chainValue)
    .option(
      '--id-window <time>',
      'the id window of the installation (default: as its stream says; of a saved archive: as it was saved with, else 1h)',
      durationOption('--id-window'),
    )
    .option('--strict', 'fail also where there are entries that readers ignore')
    .addHelpText(
      'after',
      '\nThe line `Chain at sequence …` has the chain value, which covers every entry before it; with --json it is head.hash. Keep a value elsewhere, or an\nevidence bundle: whoever rewrites the whole archive can rewrite its chain, and only a value from before shows it. Exit 0 only if nothing is wrong.\n\nExamples:\n  passover verify\n  passover verify --save ./archive\n  passover verify --archive ./archive --expect 5f2c…\n  passover verify --json | jq -r .head.hash',
    )
    .action(
      action<VerifyFlags, []>(async (context, flags) => {
        const { runVerify } = await import('../../verify/run.js')
        return runVerify(context, flags)
      }),
    )
}

function chainValue(text: string): string {
  if (!/^[0-9a-f]{64}$/.test(text)) throw new InvalidArgumentError('--expect takes the 64 hex digits of a chain value.')
  return text
}
