/**
 * Loaded before anything else of a process (`--import`): its wall clock is wrong by SHIFT_MS, as on a host whose clock nobody sets. Monotonic
 * time and timers stay as they are, as they do there.
 */
const shift = Number(process.env.SHIFT_MS ?? 0)
const Right = Date

globalThis.Date = new Proxy(Right, {
  construct: (target, given: unknown[], wrong) =>
    given.length === 0 ? Reflect.construct(target, [Right.now() + shift], wrong) : Reflect.construct(target, given, wrong),
  apply: () => new Right(Right.now() + shift).toString(),
  get: (target, name) => (name === 'now' ? () => Right.now() + shift : Reflect.get(target, name)),
})
process.send?.({ event: 'clock', shift: Date.now() - Right.now() })

export {}
