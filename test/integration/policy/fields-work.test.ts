import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { RowWorld } from '../../support/fields/row.js'
import { WORK } from '../../support/fields/work.js'

let world: RowWorld
beforeAll(async () => {
  world = await RowWorld.start(WORK)
})
afterAll(() => world?.[Symbol.asyncDispose]())

describe('what the work may be', () => {
  it.each(WORK)('$field: $what', async (row) => {
    expect(await world.see(row, 'standard')).toEqual(row.standard)
    expect(await world.see(row, 'changed')).toEqual(row.changed)
  })
})
