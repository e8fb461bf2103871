import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import { JobPool } from './job-pool.js'

function gate(): { open: () => void; wait: Promise<void> } {
  let open: () => void = () => undefined
  const wait = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, wait }
}

describe('Pool', () => {
  test('runs at most its width at a time, in order', async () => {
    const pool = new JobPool(2)
    const gates = [gate(), gate(), gate()]
    const begun: number[] = []
    gates.forEach((one, n) => {
      pool.add(() => {
        begun.push(n)
        return one.wait
      })
    })
    expect(begun).toEqual([0, 1])
    gates[1]?.open()
    await gates[1]?.wait
    await new Promise((resolve) => setImmediate(resolve))
    expect(begun).toEqual([0, 1, 2])
    gates[0]?.open()
    gates[2]?.open()
    await pool.idle()
    expect(pool.running).toBe(0)
  })

  test('forgets what has not begun when cleared', async () => {
    const pool = new JobPool(1)
    const first = gate()
    let ran = false
    pool.add(() => first.wait)
    pool.add(async () => {
      ran = true
    })
    pool.clear()
    first.open()
    await pool.idle()
    expect(ran).toBe(false)
  })

  test('lets go of what ran, also while something always waits', async () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const pool = new JobPool(1)
    const jobs: WeakRef<() => Promise<void>>[] = []
    let finish: () => void = () => undefined
    const add = () => {
      const job = () =>
        new Promise<void>((resolve) => {
          finish = resolve
        })
      jobs.push(new WeakRef(job))
      pool.add(job)
    }
    for (let n = 0; n < 10; n++) add()
    for (let n = 0; n < 500; n++) {
      add()
      finish()
      await new Promise(setImmediate)
    }
    expect(pool.waiting).toBe(9)
    collect()
    expect(jobs.filter((one) => one.deref()).length).toBeLessThan(50)
  })

  test('is idle at once when nothing was added', async () => {
    await expect(new JobPool(1).idle()).resolves.toBeUndefined()
  })
})
