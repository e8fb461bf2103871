import { Command, Option } from 'commander'
import { action, type Context } from '../../connection/context.js'
import { nameOption } from '../../input/options.js'

interface PromptOptions {
  template?: 'alice' | 'audit' | 'scout'
}

/** `passover agents prompt <agent>` */
export function promptCommand(): Command {
  return new Command('prompt')
    .description('print what an agent has to know of passing over, as registry and policy are now')
    .argument('<agent>', 'the agent', nameOption)
    .addOption(
      new Option('--template <name>', 'who passes over (alice), works (audit) or does both (scout); default: what fits its roles').choices([
        'alice',
        'audit',
        'scout',
      ]),
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
