import { Command } from 'commander'
import { action } from '../../connection/context.js'

/** `passover doctor` */
export function doctorCommand(): Command {
  return new Command('doctor')
    .description('check everything that passes depend on, and print how to fix each problem')
    .option('--monitor <url>', 'monitoring address of the server, which shows settings that clients cannot see (or PASSOVER_MONITOR_URL)')
    .option('--gateway <url>', 'address of a gateway to check (or PASSOVER_GATEWAY_URL)')
    .addHelpText('after', '\n✓ fine   ! warning   ✗ broken (exit code 1; 5 if the server cannot be reached)\n\nExample:\n  passover doctor')
    .action(
      action<{ monitor?: string; gateway?: string }, []>(async (context, { monitor, gateway }) => {
        const { runDoctor } = await import('../../doctor/run.js')
        const { PASSOVER_MONITOR_URL, PASSOVER_GATEWAY_URL } = context.env
        return runDoctor(context, { monitor: monitor ?? PASSOVER_MONITOR_URL, gateway: gateway ?? PASSOVER_GATEWAY_URL })
      }),
    )
}
