import { Command, InvalidArgumentError } from 'commander'
import { action, type Context } from '../../connection/context.js'
import { type CompletedValues, SHELLS } from './completion-scripts.js'

/** Number of newest passes whose ids are offered. */
const MAX_IDS = 100
/** Words that are safe to offer, because shells expand what they are offered. Others are left out. */
const WORD = /^[A-Za-z0-9_-]+$/

/** `passover completion bash|zsh|fish`, and `agents|ids`, which the scripts call. */
export function completionCommand(program: () => Command): Command {
  return new Command('completion')
    .description('print the completion script for a shell')
    .argument('<shell>', 'bash, zsh or fish', wantedOption)
    .addHelpText(
      'after',
      '\nThe script completes passover and npx passover. It calls `passover completion agents` and `passover completion ids`, which\nprint the names of agents and the ids of the newest passes.\n\nExample, in a project that has the command installed:\n  eval "$(npx passover completion bash)"\nA shell starts outside of the project, so its start-up file needs a saved copy:\n  npx passover completion bash > ~/.passover-completion.bash',
    )
    .action(
      action<object, ['bash' | 'zsh' | 'fish' | CompletedValues]>(async (context, _options, wanted) => {
        const { terminal } = context
        if (wanted === 'agents' || wanted === 'ids') {
          const words = (await wordsOf(context, wanted)).filter((word) => WORD.test(word))
          terminal.show(words, () => words.join('\n'))
          return 0
        }
        const { commandTree, completionScript } = await import('./completion-scripts.js')
        const script = completionScript(wanted, commandTree(program()))
        terminal.show({ shell: wanted, script }, () => script)
        return 0
      }),
    )
}

function wantedOption(text: string): string {
  if ([...SHELLS, 'agents', 'ids'].includes(text)) return text
  throw new InvalidArgumentError(`Allowed choices are ${SHELLS.join(', ')}.`)
}

async function wordsOf(context: Context, wanted: CompletedValues): Promise<string[]> {
  const { connectPerson } = await import('../../connection/connect-person.js')
  const { askAgents, askList } = await import('@passover/operator')
  await using bus = await connectPerson(context)
  if (wanted === 'agents') return (await askAgents(bus)).map(({ agent }) => agent.name)
  return [...new Set((await askList(bus, { limit: MAX_IDS })).passes.map(({ id }) => id))]
}
