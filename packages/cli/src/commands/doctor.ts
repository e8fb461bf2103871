import { Command } from 'commander'
import { action } from '../context.js'

/** `passover doctor` */
export function doctorCommand(): Command {
  return new Command('doctor')
    .description('look at everything that passes depend on, and say what mends it')
    .addHelpText('after', '\n✓ as it should be   ! works, but look at it   ✗ broken (exit 1; 5 when the server cannot be reached)')
    .action(
      action<object, []>(async (context) => {
        const { runDoctor } = await import('../doctor/run.js')
        return runDoctor(context)
      }),
    )
}
