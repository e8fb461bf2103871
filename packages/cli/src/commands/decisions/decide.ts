import { Command, InvalidArgumentError, Option } from 'commander'
import { action, type Context } from '../../connection/context.js'
import { CliFailure } from '../../errors.js'
import { formatCommands } from '../../terminal/text.js'

interface DecideOptions {
  from?: string
  to?: string
  reason?: string
  item?: 'dispatch' | 'return' | 'apply'
  only?: number[]
  yes?: true
  digest?: string
  binary?: true
  whole?: true
  despiteRevocation?: true
}

/** `passover approve <id>` */
export function approveCommand(): Command {
  return decisionCommand('approve', 'approve the item a pass waits for: its start, the release of its result, or its changes')
    .option('--only <numbers>', 'approve only these changes, by their numbers in inbox and show; the others are rejected', numbers)
    .option(
      '--digest <digest>',
      'approve only if the item has this digest (printed by approve, and for changes by apply --dry-run); do not ask for confirmation',
    )
    .option('--binary', 'allow changes of binary content, which cannot be shown')
    .option('--despite-revocation', 'approve even if credentials of an agent in the chain were revoked')
    .option('--whole', 'allow files that have too many changed lines for a diff; shows all their old and new lines')
}

/** `passover deny <id>` */
export function denyCommand(): Command {
  return decisionCommand('deny', 'deny the item a pass waits for')
}

/** Added to the help of `approve` only, because a denial starts no work and writes no changes. */
const APPROVING =
  '\nThe whole request or all changes are shown before you approve them. Without a terminal, approving a start or changes needs --digest or --yes.'

function decisionCommand(verdict: 'approve' | 'deny', description: string): Command {
  return new Command(verdict)
    .description(description)
    .argument('<id>', 'pass id, or its first characters')
    .option('--from <agent>', 'originator, if several passes have this id')
    .option('--to <agent>', 'subagent, if several passes have this id')
    .addOption(new Option('--item <item>', 'only if the pass waits for this item').choices(['dispatch', 'return', 'apply']))
    .option('--reason <text>', 'reason, stored in the audit trail')
    .option(
      '--yes',
      verdict === 'approve' ? 'do not ask for confirmation; the approved item is printed on stderr' : 'do not ask for confirmation',
    )
    .addHelpText(
      'after',
      `\nThe decision is stored under your name (--as), with the digest of what was shown.${verdict === 'approve' ? APPROVING : ''}\nIf two people decide, the first decision counts. The command tells the second person who decided and when.\n\nExample:\n  passover inbox\n  passover ${verdict} 0abcdef1 --reason "looked at it"`,
    )
    .action(action<DecideOptions, [string]>((context, options, id) => run(context, { ...options, verdict, id })))
}

/** Parses change numbers such as `1,3`. */
function numbers(text: string): number[] {
  const found = text.split(',').map((one) => one.trim())
  if (!found.every((one) => /^[1-9]\d{0,5}$/.test(one)))
    throw new InvalidArgumentError('Expected numbers from 1 on, separated by commas, such as 1,3.')
  return found.map(Number)
}

/** Refuses decisions from a command that `passover work` runs: otherwise an agent could approve its own work under its user's name. */
export function requireOutsideWork({ env }: Pick<Context, 'env'>): void {
  if (!env.PASSOVER_PARENT) return
  throw new CliFailure('E013', 'a command that works on a pass cannot approve or deny items', {
    hint: 'a person must decide, in their own terminal: passover inbox',
    exit: 4,
  })
}

async function run(context: Context, given: DecideOptions & { verdict: 'approve' | 'deny'; id: string }): Promise<number> {
  const { connectPerson } = await import('../../connection/connect-person.js')
  const { decidePending } = await import('@passover/operator')
  requireOutsideWork(context)
  const { confirmDecision } = await import('../../passes/confirm-decision.js')
  await using bus = await connectPerson(context)
  const { revokedAgents } = await import('../../auth/find-keys.js')
  const { id, verdict, reason, from, to, item, only, yes, digest, binary, whole, despiteRevocation: despite_revocation } = given
  const confirm = confirmDecision(context, bus, { verdict, only, yes, digest })
  const revoked = revokedAgents(context.server())
  const what = { ref: { id, from, to }, verdict, reason, item, only, accepts: { binary, whole }, despite_revocation, revoked }
  const decided = await decidePending(bus, { ...what, confirm })
  context.terminal.show(decided.document, () => formatCommands(decided.sentence))
  return decided.exit
}
