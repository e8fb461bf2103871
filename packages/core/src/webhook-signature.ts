import { createHmac, timingSafeEqual } from 'node:crypto'

/** Header of a webhook with its time and signature: `t=<unix seconds>,v1=<HMAC-SHA256 of "t.body", hex>`. */
export const SIGNATURE_HEADER = 'passover-signature'

const TOLERANCE_MS = 300_000

export type WebhookVerdict =
  | { ok: true; sent_at: number }
  | { ok: false; why: 'no signature' | 'another secret or another body' | 'too old or from the future' }

/** Returns the signature of a body that is sent at this time (ms). */
export function signWebhook(secret: string, body: string, now: number): string {
  const seconds = Math.floor(now / 1000)
  return `t=${seconds},v1=${mac(secret, seconds, body)}`
}

export interface SignedWebhook {
  /** Body as received, before any parsing. */
  body: string | Uint8Array
  /** The header's value. */
  signature: string | undefined | null
  secret: string
}

/**
 * Verifies that a webhook was sent with the secret, and within the last five minutes, so that an old one cannot be replayed. The header may contain
 * several `v1` while the secret is being changed. Throws a TypeError if the body is neither text nor bytes.
 */
export function verifyWebhook({ body, signature, secret }: SignedWebhook, now = Date.now(), toleranceMs = TOLERANCE_MS): WebhookVerdict {
  if (typeof body !== 'string' && !(body instanceof Uint8Array))
    throw new TypeError('body: must be the text or bytes of the request as received, not the parsed value')
  // Some frameworks turn a repeated header into a list.
  const fields = (typeof signature === 'string' ? signature : '').split(',').map((field) => field.trim().split('='))
  const seconds = fields.find(([name]) => name === 't')?.[1]
  const given = fields.flatMap(([name, value]) => (name === 'v1' && value ? [value] : []))
  if (!seconds || !/^\d{1,12}$/.test(seconds) || given.length === 0) return { ok: false, why: 'no signature' }
  const text = typeof body === 'string' ? body : Buffer.from(body).toString('utf8')
  const wanted = mac(secret, Number(seconds), text)
  if (!given.some((one) => equal(one, wanted))) return { ok: false, why: 'another secret or another body' }
  const sent_at = Number(seconds) * 1000
  return Math.abs(now - sent_at) > toleranceMs ? { ok: false, why: 'too old or from the future' } : { ok: true, sent_at }
}

function mac(secret: string, seconds: number, body: string): string {
  return createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex')
}

/** Compares in constant time. */
function equal(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}
