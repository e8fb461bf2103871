import { expect, it } from 'vitest'
import { withTimeout } from './with-timeout.js'

/** Falls due when the test says so. */
function byHand() {
  const due: (() => void)[] = []
  const after = (_ms: number, call: () => void) => {
    due.push(call)
    return { [Symbol.dispose]: () => void due.splice(due.indexOf(call), 1) }
  }
  return { clock: { after }, due }
}

it('gives what comes in time, and leaves no timer behind', async () => {
  const { clock, due } = byHand()
  expect(await withTimeout(clock, 10, Promise.resolve('there'))).toBe('there')
  await expect(withTimeout(clock, 10, Promise.reject(new Error('failed')))).rejects.toThrow('failed')
  expect(due).toEqual([])
})

it('gives nothing where it takes longer', async () => {
  const { clock, due } = byHand()
  const late = withTimeout(clock, 10, new Promise(() => undefined))
  due[0]?.()
  expect(await late).toBeUndefined()
})
