import type { Clock } from './clock.js'

/**
 * Returns the result of the promise, or `undefined` if it takes longer than `ms`. The promise is not cancelled, and a later
 * rejection is ignored.
 */
export async function withTimeout<T>(clock: Pick<Clock, 'after'>, ms: number, promise: Promise<T>): Promise<T | undefined> {
  let timer: Disposable | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = clock.after(ms, () => resolve(undefined))
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    timer?.[Symbol.dispose]()
  }
}
