import { Command } from 'commander'
import { action, type Context } from '../../connection/context.js'
import { usage } from '../../errors.js'
import { integerOption, nameOption } from '../../input/options.js'
import type { EditOptions } from '../../policy/edit.js'
import type { ExplainOptions } from '../../policy/explain.js'
import type { PolicyPullOptions } from '../../policy/pull.js'
import type { PolicyCheckOptions, PolicyPushOptions } from '../../policy/push.js'
import type { PairOptions, SetOptions } from '../../policy/set.js'

const FILE = 'the file (default: PASSOVER_CONFIG, else .opencode/pass-over.json or pass_over in .opencode/config.json, upward)'
const REASON = 'why; it stands in the history'
const MISSING = 'agents that are not registered yet are no error'
const MAX_VERSIONS = 1_000_000_000

const version = (name: string) => integerOption(name, 0, MAX_VERSIONS)

/** `passover policy …` */
export function policyCommand(): Command {
  const command = new Command('policy')
    .description('who may pass what to whom: check, publish, change, explain')
    .addHelpText(
      'after',
      '\nThe live policy is versioned: every dispatcher follows it, each pass records the version it ran under.\n\nExamples:\n  passover policy check\n  passover policy push --reason "audit may take longer"\n  passover policy explain alice audit\n  passover policy disable scout audit --reason "conflicting specializations"',
    )
  for (const child of [check(), push(), pull(), edit(), diff(), history(), rollback(), explain(), set(), enable(), disable()])
    command.addCommand(child)
  return command
}

function check(): Command {
  return new Command('check')
    .description('say everything that is wrong with the policy file, at once')
    .argument('[file]', FILE)
    .option('--offline', 'do not ask a server which agents there are')
    .option('--allow-missing', MISSING)
    .action(
      action<PolicyCheckOptions, [string?]>(async (context, options, file) =>
        (await import('../../policy/push.js')).runPolicyCheck(context, options, file),
      ),
    )
}

function push(): Command {
  return new Command('push')
    .description('publish the policy file as the next version')
    .argument('[file]', FILE)
    .option('--reason <text>', REASON)
    .option('--dry-run', 'show what would change')
    .option('--base <version>', 'only if this version is in force', version('--base'))
    .option('--allow-missing', MISSING)
    .action(
      action<PolicyPushOptions, [string?]>(async (context, options, file) =>
        (await import('../../policy/push.js')).runPolicyPush(context, options, file),
      ),
    )
}

function pull(): Command {
  return new Command('pull')
    .description('write the live policy into the file; comments stay')
    .argument('[file]', FILE)
    .option('--dry-run', 'show what would change')
    .option('--yes', 'write over what was never pushed')
    .action(
      action<PolicyPullOptions, [string?]>(async (context, options, file) =>
        (await import('../../policy/pull.js')).runPolicyPull(context, options, file),
      ),
    )
}

function edit(): Command {
  return new Command('edit')
    .description('change the live policy in $VISUAL or $EDITOR')
    .option('--reason <text>', REASON)
    .option('--allow-missing', MISSING)
    .action(action<EditOptions, []>(async (context, options) => (await import('../../policy/edit.js')).runPolicyEdit(context, options)))
}

function diff(): Command {
  return new Command('diff')
    .description('show how the file differs from the live policy, or one version from another')
    .argument('[from]', 'a version (0: the defaults); without one the live policy is compared with the file', version('<from>'))
    .argument('[to]', 'another version (default: the live one)', version('<to>'))
    .option('--file <path>', 'the policy file')
    .action(
      action<{ file?: string }, [number?, number?]>(async (context, options, from, to) =>
        (await import('../../policy/history.js')).runPolicyDiff(context, options, [from, to]),
      ),
    )
}

function history(): Command {
  return new Command('history')
    .description('the versions: who published them, when, why, and what they changed')
    .option('--limit <n>', 'how many at most', integerOption('--limit', 1, 10_000), 20)
    .action(
      action<{ limit: number }, []>(async (context, options) =>
        (await import('../../policy/history.js')).runPolicyHistory(context, options),
      ),
    )
}

function rollback(): Command {
  return new Command('rollback')
    .description('publish an earlier version anew, as the next one')
    .argument('<version>', 'the version to go back to (0: the defaults)', version('<version>'))
    .option('--reason <text>', REASON)
    .action(
      action<{ reason?: string }, [number]>(async (context, options, to) =>
        (await import('../../policy/set.js')).runPolicyRollback(context, options, to),
      ),
    )
}

function explain(): Command {
  return new Command('explain')
    .description('every setting of a pair with the level that it comes from')
    .argument('<from>', 'the originator', nameOption)
    .argument('<to>', 'the subagent', nameOption)
    .option('--override <json>', 'what an inline override would give, or why it is refused')
    .option('--request <json>', "a request's own timeout_ms and auto_apply_on_success")
    .option('--file <path>', 'explain this file instead of the live policy')
    .addHelpText('after', `\nExample:\n  passover policy explain alice audit --override '{"timeout_ms": 90000}'`)
    .action(
      action<ExplainOptions, [string, string]>(async (context, options, from, to) =>
        (await import('../../policy/explain.js')).runPolicyExplain(context, options, from, to),
      ),
    )
}

function set(): Command {
  return new Command('set')
    .description('change one setting of the live policy')
    .argument('<field>', 'the setting, such as timeout_ms or budget.passes')
    .argument('[value]', 'JSON, a time such as 30s, words with commas for a list, or a text')
    .option('--pair <from->to>', 'for this pair')
    .option('--to <agent>', 'for all passes to this subagent', nameOption)
    .option('--global', 'among the defaults')
    .option('--remove', 'leave it to the next level')
    .option('--reason <text>', REASON)
    .option('--allow-missing', MISSING)
    .addHelpText(
      'after',
      '\nExamples:\n  passover policy set timeout_ms 60s --pair "alice->audit"\n  passover policy set require_confirmation false --global',
    )
    .action(
      action<SetOptions, [string, string?]>(async (context, options, field, value) =>
        (await import('../../policy/set.js')).runPolicySet(context, options, field, value),
      ),
    )
}

function enable(): Command {
  return pairSwitch('enable', 'let passes of a pair through again')
}

function disable(): Command {
  return pairSwitch('disable', 'refuse every pass of a pair, telling the reason (E004)')
}

function pairSwitch(name: 'enable' | 'disable', description: string): Command {
  return new Command(name)
    .description(description)
    .argument('<from>', 'the originator', nameOption)
    .argument('<to>', 'the subagent', nameOption)
    .option('--reason <text>', name === 'disable' ? 'why; whoever is refused is told (needed)' : REASON)
    .option('--allow-missing', MISSING)
    .action(
      action<PairOptions, [string, string]>((context, options, from, to) =>
        runSwitch(context, options, { from, to, enabled: name === 'enable' }),
      ),
    )
}

async function runSwitch(context: Context, options: PairOptions, pair: { from: string; to: string; enabled: boolean }): Promise<number> {
  if (!pair.enabled && !options.reason) throw usage('a pair is disabled for a reason', 'say it: --reason "…"')
  return (await import('../../policy/set.js')).runPolicyPair(context, options, pair)
}
