import { describe, expect, it } from 'vitest'
import { PendingReturns } from './pending-returns.js'

const key = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }

describe('Waiting', () => {
  it('tells passes apart that have the same id to different subagents', () => {
    const pending = new PendingReturns()
    const add = (subagent: string) =>
      pending.add({ key: { ...key, subagent }, digest: 'd', epoch: undefined, skip_ack: false }, () => undefined)
    const [one, other, again] = [add('audit'), add('scout'), add('audit')]
    expect(pending.of(key)).toEqual([one, again])
    expect([...pending.all()]).toHaveLength(3)
    pending.remove(one)
    pending.remove(one)
    expect(pending.of(key)).toEqual([again])
    expect(pending.of({ ...key, subagent: 'scout' })).toEqual([other])
    expect(pending.of({ ...key, originator: 'bob' })).toEqual([])
    pending.remove(other)
    pending.remove(again)
    expect([pending.size, pending.of(key)]).toEqual([0, []])
  })
})
