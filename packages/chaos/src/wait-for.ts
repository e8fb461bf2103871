/** Waits for `ms` milliseconds, or until the signal is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const over = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', over)
      resolve()
    }
    const timer = setTimeout(over, Math.max(0, ms))
    signal?.addEventListener('abort', over)
  })
}

/** Polls `ask` until it returns true. Returns false after the deadline. An exception from `ask` counts as false. */
export async function waitUntil(ask: () => Promise<boolean>, options: { deadline_ms: number; every_ms?: number }): Promise<boolean> {
  const deadline = performance.now() + options.deadline_ms
  for (;;) {
    if (await ask().catch(() => false)) return true
    if (performance.now() > deadline) return false
    await pause(options.every_ms ?? 100)
  }
}

/** Returns the value of a promise, or throws an error that names what timed out. Does not cancel the promise. */
export async function withTimeout<T>(promise: Promise<T>, what: string, deadline_ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${deadline_ms} ms`)), deadline_ms)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
