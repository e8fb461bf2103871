import { printableJson, SIGNATURE_HEADER, signWebhook } from '@passover/core'
import type { Notice } from '@passover/schemas'

export interface WebhookReceiver {
  url: string
  secret: string
  timeout_ms: number
}

export type PostResult = { ok: true } | { ok: false; why: string; retry_after_ms?: number }

/**
 * Posts a notice once. Any 2xx response counts as taken. A redirect is a failure, because a notice signed for one receiver must not go to another
 * (I3). `now` is in ms.
 */
export async function postWebhook(receiver: WebhookReceiver, notice: Notice, now: number): Promise<PostResult> {
  const body = printableJson(notice)
  const headers = {
    'Content-Type': 'application/json',
    'User-Agent': 'passover-notifier',
    'Passover-Event': notice.event,
    'Idempotency-Key': notice.id,
    [SIGNATURE_HEADER]: signWebhook(receiver.secret, body, now),
  }
  try {
    const signal = AbortSignal.timeout(receiver.timeout_ms)
    const response = await fetch(receiver.url, { method: 'POST', headers, body, redirect: 'manual', signal })
    // The response body is not read.
    await response.body?.cancel().catch(() => undefined)
    if (response.status >= 200 && response.status < 300) return { ok: true }
    return { ok: false, why: `HTTP ${response.status}`, ...waitAsked(response.headers.get('retry-after')) }
  } catch (error) {
    return { ok: false, why: reasonOf(error) }
  }
}

/** Reads `Retry-After` in seconds. The date form is not supported; the usual wait then applies. */
function waitAsked(header: string | null): { retry_after_ms?: number } {
  return header && /^\d{1,6}$/.test(header) ? { retry_after_ms: Number(header) * 1000 } : {}
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : ''
  return `${error.name === 'TimeoutError' ? 'no answer in time' : error.message}${cause}`
}
