import { createHmac, timingSafeEqual } from 'node:crypto'

/** Header of a webhook with its time and signature: `t=<unix seconds>,v1=<HMAC-SHA256 of "t.body", hex>`. */
export const SIGNATURE_HEADER = 'passover-signature'

const TOLERANCE_MS = 300_000

/** Result of {@link verifyWebhook}. `sent_at` is in milliseconds since 1970. */
export type WebhookVerdict =
  | { ok: true; sent_at: number }
  | { ok: false; why: 'no signature' | 'another secret or another body' | 'too old or from the future' }

/** Returns the signature of a body that is sent at this time (milliseconds since 1970). */
export function signWebhook(secret: string, body: string, now: number): string {
  const seconds = Math.floor(now / 1000)
  return `t=${seconds},v1=${mac(secret, seconds, body)}`
}

/** A webhook as received. */
export interface SignedWebhook {
  /** Body as received, before any parsing. */
  body: string | Uint8Array
  /** Value of the header `passover-signature`. */
  signature: string | undefined | null
  /** Secret that sender and receiver share. */
  secret: string
}

/**
 * Verifies that a webhook was signed with the secret, and that it was signed in the last five minutes, so that an attacker cannot send an old one again.
 * The header may contain several `v1` values while the secret is being changed.
 *
 * @param webhook - The body as received, the value of the header `passover-signature`, and the secret.
 * @param now - Current time in milliseconds since 1970 (default: now).
 * @param toleranceMs - Maximum difference between `now` and the time of the signature, in milliseconds (default: 300,000).
 * @returns `ok: true` with the time of the signature in milliseconds, or `ok: false` with the reason.
 * @throws TypeError: the body is neither text nor bytes.
 * @example
 * ```ts
 * const verdict = verifyWebhook({ body, signature: request.headers['passover-signature'], secret })
 * if (!verdict.ok) return response.writeHead(401).end(verdict.why)
 * ```
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
