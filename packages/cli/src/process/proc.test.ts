import { expect, it } from 'vitest'
import { processFamily } from './proc.js'

it('a command owns its group, its session, and what those started', () => {
  const all = [
    { pid: 10, parent: 1, group: 10, session: 10 },
    { pid: 11, parent: 10, group: 10, session: 10 },
    { pid: 12, parent: 11, group: 12, session: 12 },
    { pid: 13, parent: 12, group: 12, session: 12 },
    { pid: 14, parent: 1, group: 14, session: 10 },
    { pid: 20, parent: 1, group: 20, session: 20 },
  ]
  expect(processFamily(10, all).sort()).toEqual([10, 11, 12, 13, 14])
})
