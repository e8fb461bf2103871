import type { AskOptions, Bus, NoReply } from '@passover/bus'
import { describe, expect, it } from 'vitest'
import { askList, findPass } from './ask.js'

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
