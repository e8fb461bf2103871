import type { Clock } from './clock.js'

/** What the promise gives, or undefined when it takes longer. The promise goes on; its failure is whoever waits’s. */
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
