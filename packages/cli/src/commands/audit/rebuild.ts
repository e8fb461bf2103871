import { type Command, Option } from 'commander'
import type { RebuildFlags } from '../../audit/rebuild.js'
import { action } from '../../connection/context.js'
import { durationOption } from '../../input/options.js'

/** `passover audit rebuild` */
export function registerRebuild(group: Command): void {
  group
    .command('rebuild')
    .description('make the records of passes what the stored messages say, byte for byte, while work goes on')
    .addOption(
      new Option('--source <source>', 'archive: sealed segments, and the stream for the rest; stream: only what it still holds')
        .choices(['archive', 'stream'])
        .default('archive'),
    )
    .option('--id-window <time>', 'the id window of the installation (default: as its stream says)', durationOption('--id-window'))
    .addHelpText(
      'after',
      '\nMissing and changed records are written anew, records of no pass are deleted; the others are left as they are.\nIndexes of the archive that were lost or damaged are made anew first, from segments that are what was sealed.\nIt needs the rights of the audit service; the server of a project gives them.\n\nExample:\n  passover audit rebuild --json',
    )
    .action(
      action<RebuildFlags, []>(async (context, flags) => {
        const { runRebuild } = await import('../../audit/rebuild.js')
        return runRebuild(context, flags)
      }),
    )
}
