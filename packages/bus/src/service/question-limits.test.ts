import { describe, expect, it } from 'vitest'
import { QuestionLimits } from './question-limits.js'

/** Questions that are answered when the test says so. */
function asking() {
  const limits = new QuestionLimits()
  const begun: string[] = []
  const finish: (() => void)[] = []
  const ask = (asker: string) =>
    limits.take(asker, () => {
      begun.push(asker)
      return new Promise<string>((resolve) => finish.push(() => resolve('answered')))
    })
  return { ask, begun, finish }
}
const settled = () => new Promise<void>((resolve) => setImmediate(resolve))

describe('QuestionLimits', () => {
  it('answers another asker while one asks without end, and begins none over the limit', async () => {
    const { ask, begun, finish } = asking()
    const many = Array.from({ length: 200 }, () => ask('mallory'))
    const honest = ask('alice')
    await settled()
    expect(begun).toEqual(['mallory', 'mallory', 'mallory', 'mallory', 'alice'])
    expect((await Promise.all(many.slice(68))).every((answer) => answer === undefined)).toBe(true)
    for (let n = 0; n < 69; n++) {
      while (finish.length > 0) finish.shift()?.()
      await settled()
    }
    expect(await honest).toBe('answered')
    expect(await Promise.all(many.slice(0, 68))).toEqual(Array.from({ length: 68 }, () => 'answered'))
  })
})
