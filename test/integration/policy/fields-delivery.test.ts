import { describe, expect, it } from 'vitest'
import { DELIVERY } from '../../support/fields/delivery.js'
import { RowWorld } from '../../support/fields/row.js'

describe('how long a return waits for its originator', () => {
  it.each(DELIVERY)('$field: $what', async (row) => {
    await using plain = await RowWorld.start([row])
    expect(await plain.see(row, 'standard')).toEqual(row.standard)
    await using limited = await RowWorld.start([row], row.set.defaults)
    expect(await limited.see(row, 'changed')).toEqual(row.changed)
  })
})
