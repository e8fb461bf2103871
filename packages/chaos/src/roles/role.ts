/** Common code of all processes of a run: reads the options, reports events, and exits with the runner. */

/** Returns the options that the runner passed as the first argument. */
export function roleOptions<T>(): T {
  return JSON.parse(process.argv[2] ?? '{}') as T
}

export function report(event: string, fields: object = {}): void {
  if (process.connected) process.send?.({ ...fields, event })
}

/** Retries until the attempt succeeds, since a process may be started while no server is running. */
export async function retryUntilDone<T>(attempt: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      process.stderr.write(`again: ${error instanceof Error ? error.message : String(error)}\n`)
      await new Promise((again) => setTimeout(again, 250))
    }
  }
}

// Exit with the runner, even if it was killed. Ctrl-C is handled by the runner only.
process.on('disconnect', () => process.exit(0))
process.on('SIGINT', () => undefined)

/** Interval in milliseconds at which the process reports its timers, which only it can count. */
const RESOURCES_INTERVAL_MS = 5_000
setInterval(() => {
  const timers = process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout' || kind === 'Immediate').length
  report('resources', { timers })
}, RESOURCES_INTERVAL_MS).unref()
