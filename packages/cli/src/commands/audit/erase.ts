import type { Command } from 'commander'
import type { EraseFlags } from '../../audit/erase.js'
import { action } from '../../connection/context.js'

/** `passover audit erase` */
export function registerErase(group: Command): void {
  group
    .command('erase')
    .description('erase what is stored of a session, everywhere; a tombstone says who, when and why, and the chain stays whole')
    .option('--session <id>', 'the session; without one: what was erased so far')
    .option('--originator <agent>', 'whose session it is, where several agents have one of this name')
    .option('--reason <text>', 'why; it stands in the stream')
    .option('--yes', 'do not ask')
    .addHelpText(
      'after',
      '\nA session is that of the agent that began it: its passes, and all below them. What other agents asked for under the same name is not touched.\nMessages, segments of the archive, records, and large parts that no other pass of the same agent carries. Passes that are open, or held, refuse it. What was taken elsewhere is not\nreached: exports, saved archives, evidence bundles, what agents keep. A pass can leave the stream two id windows after its last message: until then the erasure waits.\n\nExamples:\n  passover audit erase --session abc123 --reason "request of 28 November"\n  passover audit erase',
    )
    .action(
      action<EraseFlags, []>(async (context, flags) => {
        const { runErase } = await import('../../audit/erase.js')
        return runErase(context, flags)
      }),
    )
}
