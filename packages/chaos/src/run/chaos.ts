import { spawn } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { resolveServerBinary } from '@passover/nats-server'
import { detectNamespaceSandbox } from '../cluster/namespace-sandbox.js'
import type { ChaosOptions } from '../options.js'
import type { ChaosReport } from '../report/report.js'
import type { RunnerOptions } from './run.js'

/** Path of the compiled script, also when this file runs from its source. */
const RUNNER_SCRIPT = new URL('../../dist/roles/runner.js', import.meta.url)

export interface ChaosHooks {
  say: (progress: string) => void
  /** Interval in milliseconds between progress messages. */
  say_every_ms: number
  /** Ends load and faults. Requests made until then are awaited and checked. */
  stop: AbortSignal
  /** Version of Passover under test. */
  passover: string
  /** The `passover` command, used to verify the result of a run. */
  command: readonly string[]
}

/**
 * Runs real servers and processes under load and faults, and checks the result. The runner is a separate process: in its own network and mount
 * namespaces if they are available, and in a process group that Ctrl-C does not reach.
 */
export async function runChaos(
  options: ChaosOptions,
  { say, say_every_ms, stop, passover, command: itself }: ChaosHooks,
): Promise<ChaosReport> {
  await mkdir(options.dir, { recursive: true })
  const { path, version } = await resolveServerBinary({ progress: say })
  const sandbox = await detectNamespaceSandbox()
  const prefix = options.network === 'own' ? sandbox.prefix : []
  const runner: RunnerOptions = { options, sandbox, server: { path, version }, passover, command: itself, say_every_ms }
  const [command = '', ...args] = [...prefix, process.execPath, fileURLToPath(RUNNER_SCRIPT), JSON.stringify(runner)]
  const child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'], detached: true })
  const onStop = () => child.connected && child.send({ stop: true }, () => undefined)
  stop.addEventListener('abort', onStop)
  if (stop.aborted) onStop()
  try {
    return await new Promise<ChaosReport>((resolve, reject) => {
      child.on('message', (message) => {
        const said = message as { event: string; text?: string; report?: ChaosReport; why?: string }
        if (said.event === 'progress') say(said.text ?? '')
        if (said.event === 'report' && said.report) resolve(said.report)
        if (said.event === 'failed') reject(new Error(said.why))
      })
      child.once('error', reject)
      child.once('exit', (code, signal) => reject(new Error(`the runner ended (${signal ?? `exit ${code}`}) without a report`)))
    })
  } finally {
    stop.removeEventListener('abort', onStop)
  }
}
