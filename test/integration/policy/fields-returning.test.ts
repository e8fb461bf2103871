import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { RETURNING } from '../../support/fields/returning.js'
import { RowWorld } from '../../support/fields/row.js'

let world: RowWorld
beforeAll(async () => {
  world = await RowWorld.start(RETURNING)
})
afterAll(() => world?.[Symbol.asyncDispose]())

describe('what becomes of a return', () => {
  it.each(RETURNING)('$field: $what', async (row) => {
    expect(await world.see(row, 'standard')).toEqual(row.standard)
    expect(await world.see(row, 'changed')).toEqual(row.changed)
  })
})
