import { say } from '../runtime/stderr.js'

/** Milliseconds within which a second signal counts as a repetition of the first: npm and npx forward a Ctrl-C that the process also receives directly. */
const SAME_MS = 100
const SIGNALS = ['SIGTERM', 'SIGINT'] as const

/**
 * Drains an agent or a worker at the first SIGTERM or SIGINT. Call it in the main module of a process. The agent takes no more passes and waits for
 * running handlers. After `drainMs`, a worker aborts its handlers and returns their work to the queue. Then the agent closes the connection, and the
 * process exits with `process.exitCode`. A second signal ends the process immediately.
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
