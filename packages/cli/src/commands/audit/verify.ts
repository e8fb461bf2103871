import { Command, InvalidArgumentError } from 'commander'
import { action } from '../../connection/context.js'
import { durationOption, integerOption } from '../../input/options.js'
import type { VerifyFlags } from '../../verify/run.js'

/** `passover verify` */
export function verifyCommand(): Command {
  return new Command('verify')
    .description('verify all stored data: archive chain, digests, returns, ancestry, policy, approvals')
    .option('--archive <folder>', 'verify a saved archive instead of the installation; needs no server')
    .option('--save <folder>', 'also save archive and stream to this folder, so that they can be verified elsewhere')
    .option('--pass <id>', 'only this pass and its ancestors')
    .option('--from <agent>', 'originator, if several passes have this id')
    .option('--to <agent>', 'subagent, if several passes have this id')
    .option(
      '--since <sequence>',
      'start at this sequence; passes that began earlier are not verified',
      integerOption('--since', 1, Number.MAX_SAFE_INTEGER),
    )
    .option('--expect <value>', 'chain value of an earlier run, which the chain must contain', chainValue)
    .option(
      '--id-window <time>',
      'id window of the installation (default: read from its stream; for a saved archive: the saved value, else 1h)',
      durationOption('--id-window'),
    )
    .option('--strict', 'also fail on entries that readers ignore')
    .addHelpText(
      'after',
      '\nThe line `Chain at sequence …` shows the chain value, a hash over every entry up to it; with --json it is head.hash. Keep a value or an\nevidence bundle elsewhere: an attacker who rewrites the whole archive can also rewrite its chain, and only an earlier value reveals\nthat. The exit code is 0 only if no fault is found.\n\nExamples:\n  passover verify\n  passover verify --save ./archive\n  passover verify --archive ./archive --expect 5f2c…\n  passover verify --json | jq -r .head.hash',
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
