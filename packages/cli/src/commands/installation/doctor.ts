import { Command } from 'commander'
import { action } from '../../connection/context.js'

/** `passover doctor` */
export function doctorCommand(): Command {
  return new Command('doctor')
    .description('look at everything that passes depend on, and say what mends it')
    .option('--monitor <url>', 'the server’s monitoring address, which shows settings that no client can see (or PASSOVER_MONITOR_URL)')
    .option('--gateway <url>', 'the address of a gateway to be looked at (or PASSOVER_GATEWAY_URL)')
    .addHelpText('after', '\n✓ as it should be   ! works, but look at it   ✗ broken (exit 1; 5 when the server cannot be reached)')
    .action(
      action<{ monitor?: string; gateway?: string }, []>(async (context, { monitor, gateway }) => {
        const { runDoctor } = await import('../../doctor/run.js')
        const { PASSOVER_MONITOR_URL, PASSOVER_GATEWAY_URL } = context.env
        return runDoctor(context, { monitor: monitor ?? PASSOVER_MONITOR_URL, gateway: gateway ?? PASSOVER_GATEWAY_URL })
      }),
    )
}
