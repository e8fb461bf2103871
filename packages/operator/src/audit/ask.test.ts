import type { AskOptions, Bus, NoReply } from '@passover/bus'
import { describe, expect, it } from 'vitest'
import { askList, findPass, meantBy } from './ask.js'

/** A bus on which no question is answered, with how long each was waited for. */
function silent(why?: NoReply) {
  const waited: (number | undefined)[] = []
  const ask = async (_: unknown, { timeout_ms, onUnanswered }: AskOptions = {}) => {
    waited.push(timeout_ms)
    if (why) onUnanswered?.(why)
  }
  return { bus: { ask } as unknown as Bus, waited }
}

describe('a question that nobody answers', () => {
  it('tells an audit that is not there from one that did not answer in time', async () => {
    const none = { code: 'E040', message: 'the server is running, but no audit service answers' }
    await expect(askList(silent('no_responders').bus, { limit: 1 })).rejects.toMatchObject(none)
    await expect(askList(silent().bus, { limit: 1 })).rejects.toMatchObject(none)
    await expect(askList(silent('timeout').bus, { limit: 1 })).rejects.toMatchObject({
      code: 'E040',
      message: 'the audit service did not answer within 5 s',
      hint: expect.stringContaining('try again'),
    })
  })

  it('is waited for as long as the caller says', async () => {
    const { bus, waited } = silent('timeout')
    await expect(findPass(bus, { id: '0abcdefghijk' }, {}, 60_000)).rejects.toThrow('did not answer within 60 s')
    expect(waited).toEqual([60_000])
  })
})

describe('the passes that a text may mean', () => {
  const row = (id: string, originator = 'alice') => ({ id, originator, subagent: 'audit', status: 'open', created_at: 1, last_sequence: 1 })
  it.each([
    ['all that begin with it', [row('order-123'), row('order-12')], [0, 1]],
    ['its own alone, beside longer ids of the same originator', [row('order-1'), row('order-12')], [0]],
    [
      'also longer ids of other originators, because an agent may choose the beginning of them',
      [row('order-1', 'mallory'), row('order-12')],
      [0, 1],
    ],
    ['those of several with the same id', [row('order-1'), row('order-1', 'bob')], [0, 1]],
  ])('are %s', (_, rows, meant) => {
    expect(meantBy('order-1', rows)).toEqual(meant.map((n) => rows[n]))
  })

  it('are asked for, before a pass is taken for the one that is meant', async () => {
    const [chosen, longer] = [row('0y868y8e0mx3', 'mallory'), row('0y868y8e0mx3qej8e_cV-CBCueE9O4H9')]
    const pass = (one: { id: string; originator: string; subagent: string }) => ({
      key: { originator: one.originator, subagent: one.subagent, id: one.id },
      row: one,
      status: 'requested',
      decisions: [],
    })
    const asked: string[] = []
    const ask = async (question: { op: string; id?: string; originator?: string }) => {
      asked.push(question.op)
      if (question.op === 'list') return { ok: true, passes: [longer, chosen], more: false }
      return { ok: true, passes: [pass(question.id === chosen.id ? chosen : longer)] }
    }
    const bus = { ask } as unknown as Bus
    await expect(findPass(bus, { id: chosen.id })).rejects.toMatchObject({ code: 'E042', exit: 2 })
    expect(asked).toEqual(['pass', 'list'])
    expect((await findPass(bus, { id: chosen.id, from: 'mallory' })).row).toEqual(chosen)
    expect((await findPass(bus, { id: longer.id })).row).toEqual(longer)
    expect(asked).toEqual(['pass', 'list', 'pass', 'pass'])
  })
})
