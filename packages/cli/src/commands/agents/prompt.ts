import { Command, Option } from 'commander'
import { action, type Context } from '../../connection/context.js'
import { nameOption } from '../../input/options.js'

interface PromptOptions {
  template?: 'alice' | 'audit' | 'scout'
}

/** `passover agents prompt <agent>` */
export function promptCommand(): Command {
  return new Command('prompt')
    .description('print prompt text that tells a model how to use Passover, based on the current registry and policy')
    .argument('<agent>', 'agent name', nameOption)
    .addOption(
      new Option(
        '--template <name>',
        'template: alice originates passes, audit works on them, scout does both (default: by the roles of the agent)',
      ).choices(['alice', 'audit', 'scout']),
    )
    .addHelpText(
      'after',
      '\nExamples:\n  passover agents prompt alice > prompts/alice.md\n  passover agents prompt reviewer --template audit',
    )
    .action(action<PromptOptions, [string]>(print))
}

async function print(context: Context, options: PromptOptions, agent: string): Promise<number> {
  const { openPolicy } = await import('../../policy/session.js')
  const { buildAgentPrompt } = await import('../../agents/prompt.js')
  await using session = await openPolicy(context)
  const made = await buildAgentPrompt(session, agent, options.template)
  context.terminal.show(made, () => made.prompt)
  return 0
}
