import { say } from '../runtime/stderr.js'

/** Milliseconds within which a second signal counts as the same one: npm and npx forward a Ctrl-C that the process also receives directly. */
const SAME_MS = 100
const SIGNALS = ['SIGTERM', 'SIGINT'] as const

/**
 * Drains an agent or a worker at the first SIGTERM or SIGINT. For the main module of a process. The agent takes no more passes, waits for running
 * handlers (each worker up to its `drainMs`, then it aborts them and hands their work back), closes the connection and exits with
 * `process.exitCode`. A second signal ends the process at once, as if there were no listener.
 *
 * @param agent - The agent or worker to dispose at the signal.
 * @returns An object that removes the listeners when it is disposed.
 * @example
 * ```ts
 * const agent = await connect('audit')
 * await agent.onPass(handler)
 * drainOnSignals(agent)
 * ```
 */
export function drainOnSignals(agent: AsyncDisposable): Disposable {
  const undo = () => {
    for (const name of SIGNALS) process.off(name, onSignal)
  }
  let draining = false
  const onSignal = () => {
    if (draining) return
    draining = true
    setTimeout(undo, SAME_MS).unref()
    void agent[Symbol.asyncDispose]().then(
      () => process.exit(),
      (error: unknown) => {
        say(`not drained: ${error instanceof Error ? error.message : String(error)}`)
        process.exit(1)
      },
    )
  }
  for (const name of SIGNALS) process.on(name, onSignal)
  return { [Symbol.dispose]: undo }
}
