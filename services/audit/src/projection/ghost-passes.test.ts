import { expect, it } from 'vitest'
import { GhostPasses } from './ghost-passes.js'

it('gives up the oldest of the sender with the most, whoever comes new', () => {
  const ghosts = new GhostPasses(100)
  for (let i = 0; i < 10; i++) ghosts.add(`alice/${i}`, 'alice', 1)
  for (let i = 0; i < 500; i++) ghosts.add(`mallory/${i}`, 'mallory', 1)
  expect(ghosts.size).toBe(100)
  expect(Array.from({ length: 10 }, (_, i) => ghosts.has(`alice/${i}`))).not.toContain(false)
  for (let i = 0; i < 30; i++) ghosts.add(`bob/${i}`, 'bob', 1)
  expect([ghosts.size, ghosts.has('alice/0'), ghosts.has('bob/0'), ghosts.has('mallory/439'), ghosts.has('mallory/440')]).toEqual([
    100,
    true,
    true,
    false,
    true,
  ])
})

it('counts what was heard of each', () => {
  const ghosts = new GhostPasses()
  ghosts.add('a', 'alice', 3)
  expect([ghosts.countMessage('a'), ghosts.countMessage('a'), ghosts.countMessage('b')]).toEqual([4, 5, undefined])
  ghosts.delete('a')
  expect([ghosts.countMessage('a'), ghosts.size]).toEqual([undefined, 0])
})
