import { createHmac, timingSafeEqual } from 'node:crypto'

/** Header of a webhook that says when it was sent and by whom: `t=<unix seconds>,v1=<HMAC-SHA256 of "t.body", hex>`. */
export const SIGNATURE_HEADER = 'passover-signature'

const TOLERANCE_MS = 300_000

export type WebhookVerdict =
  | { ok: true; sent_at: number }
  | { ok: false; why: 'no signature' | 'another secret or another body' | 'too old or from the future' }

/** The signature of a body that is sent at this time (ms). */
export function signWebhook(secret: string, body: string, now: number): string {
  const seconds = Math.floor(now / 1000)
  return `t=${seconds},v1=${mac(secret, seconds, body)}`
}

export interface SignedWebhook {
  /** As it came, before any parsing. */
  body: string | Uint8Array
  /** The header's value. */
  signature: string | undefined | null
  secret: string
}

/**
 * Whether a webhook was sent by who knows the secret, and of late (within five minutes, so that nobody can send an old one again).
 * Several `v1` may stand there while a secret is being changed. TypeError where the body is neither text nor bytes.
 */
export function verifyWebhook({ body, signature, secret }: SignedWebhook, now = Date.now(), tolerance_ms = TOLERANCE_MS): WebhookVerdict {
  if (typeof body !== 'string' && !(body instanceof Uint8Array))
    throw new TypeError('body: must be the text or the bytes of the request as they came, not what was parsed of them')
  // A header that was sent twice is a list in some frameworks.
  const fields = (typeof signature === 'string' ? signature : '').split(',').map((field) => field.trim().split('='))
  const seconds = fields.find(([name]) => name === 't')?.[1]
  const given = fields.flatMap(([name, value]) => (name === 'v1' && value ? [value] : []))
  if (!seconds || !/^\d{1,12}$/.test(seconds) || given.length === 0) return { ok: false, why: 'no signature' }
  const text = typeof body === 'string' ? body : Buffer.from(body).toString('utf8')
  const wanted = mac(secret, Number(seconds), text)
  if (!given.some((one) => equal(one, wanted))) return { ok: false, why: 'another secret or another body' }
  const sent_at = Number(seconds) * 1000
  return Math.abs(now - sent_at) > tolerance_ms ? { ok: false, why: 'too old or from the future' } : { ok: true, sent_at }
}

function mac(secret: string, seconds: number, body: string): string {
  return createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex')
}

/** In the same time wherever they differ. */
function equal(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}
