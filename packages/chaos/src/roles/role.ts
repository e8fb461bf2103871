/** What every process of a run does: read what it is told, say what happens, end with the runner. */

/** What the runner gave as the first argument. */
export function roleOptions<T>(): T {
  return JSON.parse(process.argv[2] ?? '{}') as T
}

export function report(event: string, fields: object = {}): void {
  if (process.connected) process.send?.({ ...fields, event })
}

/** Tries until it succeeds: a process may be started while no server is up. */
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

// A runner that was killed leaves nobody behind; Ctrl-C is the runner's to hear.
process.on('disconnect', () => process.exit(0))
process.on('SIGINT', () => undefined)

/** What only the process itself can count. */
const RESOURCES_INTERVAL_MS = 5_000
setInterval(() => {
  const timers = process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout' || kind === 'Immediate').length
  report('resources', { timers })
}, RESOURCES_INTERVAL_MS).unref()
