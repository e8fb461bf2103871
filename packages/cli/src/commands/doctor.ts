import { Command } from 'commander'
import { action } from '../context.js'

/** `passover doctor` */
export function doctorCommand(): Command {
  return new Command('doctor')
    .description('look at everything that passes depend on, and say what mends it')
    .option('--monitor <url>', 'the server’s monitoring address, which shows settings that no client can see (or PASSOVER_MONITOR_URL)')
    .addHelpText('after', '\n✓ as it should be   ! works, but look at it   ✗ broken (exit 1; 5 when the server cannot be reached)')
    .action(
      action<{ monitor?: string }, []>(async (context, options) => {
        const { runDoctor } = await import('../doctor/run.js')
        return runDoctor(context, options.monitor ?? context.env.PASSOVER_MONITOR_URL)
      }),
    )
}
