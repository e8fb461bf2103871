import { Command } from 'commander'
import { action, type Context } from '../context.js'

interface DecideOptions {
  from?: string
  to?: string
  reason?: string
}

/** `passover approve <id>` */
export function approveCommand(): Command {
  return decisionCommand('approve', 'say yes to what a pass waits for: its start, or the release of its result')
}

/** `passover deny <id>` */
export function denyCommand(): Command {
  return decisionCommand('deny', 'say no to what a pass waits for')
}

function decisionCommand(verdict: 'approve' | 'deny', description: string): Command {
  return new Command(verdict)
    .description(description)
    .argument('<id>', 'the pass, or the beginning of its id')
    .option('--from <agent>', 'of this originator, where several passes share the id')
    .option('--to <agent>', 'of this subagent')
    .option('--reason <text>', 'why; it stands in the audit trail')
    .addHelpText(
      'after',
      `\nThe decision is stored under your name (--as) and bound to what was held. Of two people one wins; the other sees who and when.\n\nExample:\n  passover list --status held\n  passover ${verdict} 0abcdef1 --reason "looked at it"`,
    )
    .action(action<DecideOptions, [string]>((context, options, id) => run(context, { ...options, verdict, id })))
}

async function run(context: Context, given: DecideOptions & { verdict: 'approve' | 'deny'; id: string }): Promise<number> {
  const { connectPerson } = await import('../client.js')
  const { decideDue } = await import('../decide-due.js')
  await using bus = await connectPerson(context)
  const { id, verdict, reason, from, to } = given
  const decided = await decideDue(bus, { ref: { id, from, to }, verdict, reason })
  context.terminal.show(decided.document, () => decided.sentence)
  return decided.exit
}
