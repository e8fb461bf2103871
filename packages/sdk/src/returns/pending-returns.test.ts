import { describe, expect, it } from 'vitest'
import { PendingReturns } from './pending-returns.js'

const key = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }

describe('Waiting', () => {
  it('tells passes apart that have the same id to different subagents', () => {
    const waiting = new PendingReturns()
    const add = (subagent: string) =>
      waiting.add({ key: { ...key, subagent }, digest: 'd', epoch: undefined, quiet: false }, () => undefined)
    const [one, other, again] = [add('audit'), add('scout'), add('audit')]
    expect(waiting.of(key)).toEqual([one, again])
    expect([...waiting.all()]).toHaveLength(3)
    waiting.remove(one)
    waiting.remove(one)
    expect(waiting.of(key)).toEqual([again])
    expect(waiting.of({ ...key, subagent: 'scout' })).toEqual([other])
    expect(waiting.of({ ...key, originator: 'bob' })).toEqual([])
    waiting.remove(other)
    waiting.remove(again)
    expect([waiting.size, waiting.of(key)]).toEqual([0, []])
  })
})
