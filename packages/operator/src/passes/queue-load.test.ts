import { expect, it } from 'vitest'
import { openQueued } from './queue-load.js'

it.each([
  ['all that waits, while no pass ended', { queued: 3, running: 2, open: 5 }, 3],
  ['no pass that ended while it waited', { queued: 1, running: 0, open: 0 }, 0],
  ['only those that are open, beside one that runs', { queued: 2, running: 1, open: 2 }, 1],
  ['none, where a worker still holds one that ended', { queued: 1, running: 2, open: 1 }, 0],
])('the queue of a subagent counts %s', (_, { open, ...load }, queued) => {
  expect(openQueued(load, open)).toBe(queued)
})
