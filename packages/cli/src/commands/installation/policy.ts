import { Command } from 'commander'
import { action, type Context } from '../../connection/context.js'
import { usage } from '../../errors.js'
import { integerOption, nameOption } from '../../input/options.js'
import type { EditOptions } from '../../policy/edit.js'
import type { ExplainOptions } from '../../policy/explain.js'
import type { PolicyPullOptions } from '../../policy/pull.js'
import type { PolicyCheckOptions, PolicyPushOptions } from '../../policy/push.js'
import type { PairOptions, SetOptions } from '../../policy/set.js'

const FILE = 'policy file (default: PASSOVER_CONFIG, else .opencode/pass-over.json or pass_over in .opencode/config.json, searched upward)'
const REASON = 'reason, shown in the history'
const MISSING = 'accept names of agents that are not registered yet'
const MAX_VERSIONS = 1_000_000_000

const version = (name: string) => integerOption(name, 0, MAX_VERSIONS)

/** `passover policy …` */
export function policyCommand(): Command {
  const command = new Command('policy')
    .description('check, publish, change and explain the policy: which agent may pass which work to which subagent')
    .addHelpText(
      'after',
      '\nThe live policy is versioned. Every dispatcher applies it. Each pass records its policy version.\n\nExamples:\n  passover policy check\n  passover policy push --reason "audit may take longer"\n  passover policy explain alice audit\n  passover policy disable scout audit --reason "conflicting specializations"',
    )
  for (const child of [check(), push(), pull(), edit(), diff(), history(), rollback(), explain(), set(), enable(), disable()])
    command.addCommand(child)
  return command
}

function check(): Command {
  return new Command('check')
    .description('report all errors in the policy file')
    .argument('[file]', FILE)
    .option('--offline', 'do not check agent names against the registry')
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
    .option('--dry-run', 'show what would change without changing it')
    .option('--base <version>', 'publish only if this version is in force', version('--base'))
    .option('--allow-missing', MISSING)
    .action(
      action<PolicyPushOptions, [string?]>(async (context, options, file) =>
        (await import('../../policy/push.js')).runPolicyPush(context, options, file),
      ),
    )
}

function pull(): Command {
  return new Command('pull')
    .description('write the live policy to the file; comments are kept')
    .argument('[file]', FILE)
    .option('--dry-run', 'show what would change without changing it')
    .option('--yes', 'overwrite changes that were never pushed')
    .action(
      action<PolicyPullOptions, [string?]>(async (context, options, file) =>
        (await import('../../policy/pull.js')).runPolicyPull(context, options, file),
      ),
    )
}

function edit(): Command {
  return new Command('edit')
    .description('edit the live policy in $VISUAL or $EDITOR')
    .option('--reason <text>', REASON)
    .option('--allow-missing', MISSING)
    .action(action<EditOptions, []>(async (context, options) => (await import('../../policy/edit.js')).runPolicyEdit(context, options)))
}

function diff(): Command {
  return new Command('diff')
    .description('compare the file with the live policy, or two versions')
    .argument('[from]', 'a version (0: the defaults); without it, the live policy is compared with the file', version('<from>'))
    .argument('[to]', 'another version (default: the live one)', version('<to>'))
    .option('--file <path>', 'policy file')
    .action(
      action<{ file?: string }, [number?, number?]>(async (context, options, from, to) =>
        (await import('../../policy/history.js')).runPolicyDiff(context, options, [from, to]),
      ),
    )
}

function history(): Command {
  return new Command('history')
    .description('list policy versions: person, time, reason and changes')
    .option('--limit <n>', 'maximum number of versions', integerOption('--limit', 1, 10_000), 20)
    .action(
      action<{ limit: number }, []>(async (context, options) =>
        (await import('../../policy/history.js')).runPolicyHistory(context, options),
      ),
    )
}

function rollback(): Command {
  return new Command('rollback')
    .description('publish an earlier version again as the next version')
    .argument('<version>', 'version to publish again (0: the defaults)', version('<version>'))
    .option('--reason <text>', REASON)
    .action(
      action<{ reason?: string }, [number]>(async (context, options, to) =>
        (await import('../../policy/set.js')).runPolicyRollback(context, options, to),
      ),
    )
}

function explain(): Command {
  return new Command('explain')
    .description('show every setting of a pair and the level that sets it')
    .argument('<from>', 'originator', nameOption)
    .argument('<to>', 'subagent', nameOption)
    .option('--override <json>', 'show the result of an inline override, or why it is refused')
    .option('--request <json>', "show the result of a request's own timeout_ms and auto_apply_on_success")
    .option('--file <path>', 'use this file instead of the live policy')
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
    .argument('<field>', 'name of the setting, such as timeout_ms or budget.passes')
    .argument('[value]', 'value: JSON, a duration such as 30s, a comma-separated list, or text')
    .option('--pair <from->to>', 'set it for this pair')
    .option('--to <agent>', 'set it for all passes to this subagent', nameOption)
    .option('--global', 'set it in the defaults')
    .option('--remove', 'remove the setting, so that the next level applies')
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
  return pairSwitch('enable', 'allow passes of a disabled pair again')
}

function disable(): Command {
  return pairSwitch('disable', 'refuse every pass of a pair with E004 and the reason')
}

function pairSwitch(name: 'enable' | 'disable', description: string): Command {
  return new Command(name)
    .description(description)
    .argument('<from>', 'originator', nameOption)
    .argument('<to>', 'subagent', nameOption)
    .option('--reason <text>', name === 'disable' ? 'reason, shown in each refusal (required)' : REASON)
    .option('--allow-missing', MISSING)
    .action(
      action<PairOptions, [string, string]>((context, options, from, to) =>
        runSwitch(context, options, { from, to, enabled: name === 'enable' }),
      ),
    )
}

async function runSwitch(context: Context, options: PairOptions, pair: { from: string; to: string; enabled: boolean }): Promise<number> {
  if (!pair.enabled && !options.reason) throw usage('a reason is required to disable a pair', 'add --reason "…"')
  return (await import('../../policy/set.js')).runPolicyPair(context, options, pair)
}
