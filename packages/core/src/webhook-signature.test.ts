import { describe, expect, it } from 'vitest'
import { signWebhook, verifyWebhook } from './webhook-signature.js'

const NOW = 1_800_000_000_000
const secret = 'a secret of the receiver'
const body = '{"event":"return"}'
const signature = signWebhook(secret, body, NOW)

describe('the signature of a webhook', () => {
  it('is the HMAC of time and body, as one can compute it elsewhere', () => {
    expect(signature).toBe('t=1800000000,v1=d3f8180fe44981211be30d10b2abacbb60eab979dc06bd7197950e5b5b29ad32')
    expect(verifyWebhook({ body: Buffer.from(body), signature, secret }, NOW + 1_000)).toEqual({ ok: true, sent_at: NOW })
  })

  it.each([
    ['another body', { body: `${body} `, signature, secret }, NOW, 'another secret or another body'],
    ['another secret', { body, signature, secret: 'another one' }, NOW, 'another secret or another body'],
    ['another time', { body, signature: signature.replace('t=18', 't=19'), secret }, NOW, 'another secret or another body'],
    ['an old one', { body, signature, secret }, NOW + 300_001, 'too old or from the future'],
    ['one from the future', { body, signature, secret }, NOW - 300_001, 'too old or from the future'],
    ['two headers', { body, signature: [signature, signature] as never, secret }, NOW, 'no signature'],
    ['none', { body, signature: undefined, secret }, NOW, 'no signature'],
    ['half of one', { body, signature: 't=1800000000', secret }, NOW, 'no signature'],
    ['none that is one', { body, signature: 't=x,v1=y', secret }, NOW, 'no signature'],
  ])('does not hold for %s', (_, signed, now, why) => {
    expect(verifyWebhook(signed, now)).toEqual({ ok: false, why })
  })

  it('is of the body as it came, and says so to whom gives what was parsed of it', () => {
    expect(() => verifyWebhook({ body: JSON.parse('{}') as never, signature, secret }, NOW)).toThrow('not the parsed value')
  })

  it('may be one of several, while a secret is changed', () => {
    const both = `${signature},v1=${'0'.repeat(64)}`
    expect(verifyWebhook({ body, signature: both, secret }, NOW).ok).toBe(true)
  })
})
