import type { CurrentPolicy } from '@passover/bus'
import { expect, it } from 'vitest'
import { LoggingPolicy } from './logging-policy.js'

const valid = (audit?: { log_all_passes?: boolean }) =>
  ({ kind: 'valid', value: { document: audit ? { audit } : {} }, revision: 1 }) as unknown as CurrentPolicy

/** What each look in turn makes of it. */
async function looked(told: boolean, stands: (CurrentPolicy | undefined)[]): Promise<boolean[]> {
  let current: CurrentPolicy | undefined
  const stood = async () => {
    if (!current) throw new Error('not read')
    return current
  }
  const logging = new LoggingPolicy({ stand: stood }, told)
  const found = [logging.on]
  for (current of stands) {
    await logging.look()
    found.push(logging.on)
  }
  return found
}

it('is as the newest valid policy says, and what is not valid, gone or not read changes nothing', async () => {
  const off = valid({ log_all_passes: false })
  const invalid: CurrentPolicy = { kind: 'invalid', why: 'x', revision: 2 }
  const stands = [off, invalid, { kind: 'none', revision: 0 } as const, undefined, valid({}), off, valid()]
  expect(await looked(true, stands)).toEqual([true, false, false, false, false, true, false, true])
})

it('is off whatever the policy says where the process was told so', async () => {
  expect(await looked(false, [valid({ log_all_passes: true })])).toEqual([false, false])
})

it('keeps as long as the policy in force says, by default thirty days; and does not know where one was published that is not in the bucket', async () => {
  let current: CurrentPolicy = { kind: 'none', revision: 0 }
  let published = 0
  const logging = new LoggingPolicy({ stand: async () => current }, true, async (version) => published > version)
  const said: (number | undefined)[] = []
  const look = async (next: CurrentPolicy, newest: number) => {
    current = next
    published = newest
    await logging.look()
    said.push(logging.retention?.days)
  }
  const version = (number: number, audit?: object) =>
    ({ kind: 'valid', value: { version: number, document: audit ? { audit } : {} }, revision: 1 }) as unknown as CurrentPolicy
  await look(current, 0)
  await look(version(1, { retention_days: 90 }), 1)
  await look(version(1, { retention_days: 90 }), 2)
  await look({ kind: 'invalid', why: 'x', revision: 2 }, 2)
  await look({ kind: 'none', revision: 0 }, 2)
  await look(version(2), 2)
  expect(said).toEqual([30, 90, undefined, undefined, undefined, 30])
})

it('does not know how long is kept where that cannot be read now, whatever was in force before', async () => {
  const failing = new Error('not read')
  let current: CurrentPolicy | undefined = valid()
  let behind: boolean | undefined = false
  const stood = async () => {
    if (!current) throw failing
    return current
  }
  const logging = new LoggingPolicy({ stand: stood }, true, async () => {
    if (behind === undefined) throw failing
    return behind
  })
  const looked = async () => {
    await logging.look()
    return logging.retention?.days
  }
  expect(await looked()).toBe(30)
  current = undefined
  expect([await looked(), logging.on]).toEqual([undefined, true])
  current = valid()
  expect(await looked()).toBe(30)
  behind = undefined
  expect(await looked()).toBe(undefined)
})
