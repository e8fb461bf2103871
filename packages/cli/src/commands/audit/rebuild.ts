import { type Command, Option } from 'commander'
import type { RebuildFlags } from '../../audit/rebuild.js'
import { action } from '../../connection/context.js'
import { durationOption } from '../../input/options.js'

/** `passover audit rebuild` */
export function registerRebuild(group: Command): void {
  group
    .command('rebuild')
    .description('rebuild the records of passes from the stored messages, while the services keep running')
    .addOption(
      new Option('--source <source>', 'archive: sealed segments plus the stream; stream: only messages that are still in the stream')
        .choices(['archive', 'stream'])
        .default('archive'),
    )
    .option('--id-window <time>', 'id window of the installation (default: read from its stream)', durationOption('--id-window'))
    .addHelpText(
      'after',
      '\nMissing and wrong records are rewritten, records without a pass are deleted, and correct records are not touched.\nLost or damaged indexes of the archive are rebuilt first, from segments whose digests are valid.\nThe audit service writes the records. An auditor or a custodian may run this command. If no audit service runs, the command needs the rights of one.\n\nExample:\n  passover audit rebuild --json',
    )
    .action(
      action<RebuildFlags, []>(async (context, flags) => {
        const { runRebuild } = await import('../../audit/rebuild.js')
        return runRebuild(context, flags)
      }),
    )
}
