/** Functions that the processes of load tests share. A process that imports this file ends with its test. */

/** The options that the test gave as the first argument. */
export function optionsOf<T>(): T {
  return JSON.parse(process.argv[2] ?? '{}') as T
}

export function say(event: string, fields: object = {}): void {
  if (process.connected) process.send?.({ ...fields, event })
}

/** Tries until it succeeds: a process may be started while the server is down. */
export async function insist<T>(attempt: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      process.stderr.write(`again: ${error instanceof Error ? error.message : String(error)}\n`)
      await pause(250)
    }
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

// Ends this process when its test ends or is killed.
process.on('disconnect', () => process.exit(0))
