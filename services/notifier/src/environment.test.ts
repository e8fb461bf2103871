import { describe, expect, it } from 'vitest'
import { readEnvironment, webhookFrom } from './environment.js'
import { notifierOptions } from './options.js'

const hook = { PASSOVER_WEBHOOK_URL: 'https://example.org/hook', PASSOVER_WEBHOOK_SECRET: 'a secret of sixteen' }

describe('the environment of a notifier', () => {
  it('says where, signed by what, and with which server', () => {
    const told = readEnvironment({ ...hook, NATS_URL: 'nats://a' }, () => undefined)
    expect(told).toEqual({
      bus: { servers: ['nats://a'] },
      settings: { url: hook.PASSOVER_WEBHOOK_URL, secret: hook.PASSOVER_WEBHOOK_SECRET },
      log_level: 'info',
    })
  })

  it('wants a secret with a URL, and a URL to be a notifier', () => {
    expect(webhookFrom({})).toBeUndefined()
    expect(() => webhookFrom({ PASSOVER_WEBHOOK_URL: 'https://example.org' })).toThrow('PASSOVER_WEBHOOK_SECRET')
    expect(() => readEnvironment({}, () => undefined)).toThrow('PASSOVER_WEBHOOK_URL')
  })

  it.each([
    ['ftp://example.org', hook.PASSOVER_WEBHOOK_SECRET],
    ['https://maria:word@example.org/hook', hook.PASSOVER_WEBHOOK_SECRET],
    ['http://example.org:6000/hook', hook.PASSOVER_WEBHOOK_SECRET],
    ['not an address', hook.PASSOVER_WEBHOOK_SECRET],
    [hook.PASSOVER_WEBHOOK_URL, 'short'],
  ])('takes no %s with %s', (url, secret) => {
    expect(notifierOptions.safeParse({ url, secret }).success).toBe(false)
  })
})
