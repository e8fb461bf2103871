import { Argument, Command } from 'commander'
import { action } from '../context.js'

/** `passover completion bash|zsh|fish` */
export function completionCommand(program: () => Command): Command {
  return new Command('completion')
    .description('print the completion script of a shell')
    .addArgument(new Argument('<shell>', 'which shell').choices(['bash', 'zsh', 'fish']))
    .addHelpText('after', '\nExample:\n  eval "$(passover completion bash)"')
    .action(
      action<object, ['bash' | 'zsh' | 'fish']>(async ({ terminal }, _options, shell) => {
        const { commandTree, completionScript } = await import('../completion.js')
        const script = completionScript(shell, commandTree(program()))
        terminal.show({ shell, script }, () => script)
        return 0
      }),
    )
}
