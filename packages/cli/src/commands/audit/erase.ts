import type { Command } from 'commander'
import type { EraseFlags } from '../../audit/erase.js'
import { action } from '../../connection/context.js'

/** `passover audit erase` */
export function registerErase(group: Command): void {
  group
    .command('erase')
    .description('erase all stored data of a session; a tombstone records who, when and why, so that the archive can still be verified')
    .option('--session <id>', 'session to erase (without it: list erasures)')
    .option('--originator <agent>', 'originator of the session, if several agents have a session with this name')
    .option('--reason <text>', 'reason, stored in the stream')
    .option('--yes', 'do not ask for confirmation')
    .addHelpText(
      'after',
      '\nA session belongs to the originator that started it and consists of its root passes and all their descendants. Sessions of other\noriginators with the same name are not affected.\nThe command erases messages, archive segments, records, and large parts that no other pass of the same agent uses. It fails if a\npass of the session is open or under legal hold. It does not erase exports, saved archives, evidence bundles, or data that agents\nkeep themselves. The erasure starts two id windows after the last message of the session.\n\nExamples:\n  passover audit erase --session abc123 --reason "request of 28 November"\n  passover audit erase',
    )
    .action(
      action<EraseFlags, []>(async (context, flags) => {
        const { runErase } = await import('../../audit/erase.js')
        return runErase(context, flags)
      }),
    )
}
