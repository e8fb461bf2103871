/** What every process of a load test does: read its options, say what happens, end with the test. */

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

// A test that was killed leaves nobody behind.
process.on('disconnect', () => process.exit(0))
