/** Asks again until `ask` gives something truthy, and gives that; throws at the deadline with what it last saw. */
export async function until<T>(
  ask: () => T | Promise<T>,
  options: { what: string; deadline_ms?: number; every_ms?: number },
): Promise<NonNullable<Awaited<T>>> {
  const { what, deadline_ms = 30_000, every_ms = 20 } = options
  const deadline = Date.now() + deadline_ms
  let last: unknown
  for (;;) {
    try {
      const answer = await ask()
      if (answer) return answer as NonNullable<Awaited<T>>
      last = answer
    } catch (error) {
      last = error
    }
    if (Date.now() > deadline)
      throw new Error(`${what}: not within ${deadline_ms} ms (last: ${last instanceof Error ? last.message : String(last)})`)
    await new Promise((again) => setTimeout(again, every_ms))
  }
}

/** A promise's value, or an error that names what took too long. The promise itself goes on. */
export async function within<T>(promise: Promise<T>, what: string, deadline_ms = 30_000): Promise<T> {
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

/** Holds when `ask` stays true for so long: for what must not happen. Fails at once when it does. */
export async function staysTrue(ask: () => boolean | Promise<boolean>, options: { what: string; for_ms: number }): Promise<void> {
  const end = Date.now() + options.for_ms
  while (Date.now() < end) {
    if (!(await ask())) throw new Error(`${options.what}: held no longer`)
    await new Promise((again) => setTimeout(again, 20))
  }
}
