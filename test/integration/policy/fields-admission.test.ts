import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ADMISSION, GLOBAL } from '../../support/fields/admission.js'
import { LIMITS } from '../../support/fields/limits.js'
import { RowWorld } from '../../support/fields/row.js'

let world: RowWorld
beforeAll(async () => {
  world = await RowWorld.start([...ADMISSION, ...LIMITS, ...GLOBAL])
})
afterAll(() => world?.[Symbol.asyncDispose]())

describe('whether and how a pass begins', () => {
  it.each([...ADMISSION, ...LIMITS])('$field: $what', async (row) => {
    expect(await world.see(row, 'standard')).toEqual(row.standard)
    expect(await world.see(row, 'changed')).toEqual(row.changed)
  })

  it.each(GLOBAL)('$field: $what', async (row) => {
    expect(await world.see(row, 'standard')).toEqual(row.standard)
    await using limited = await RowWorld.start([row], row.set.defaults)
    expect(await limited.see(row, 'changed')).toEqual(row.changed)
  })
})
