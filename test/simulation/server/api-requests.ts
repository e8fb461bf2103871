import { API_ERROR, type ApiReply } from '@passover/bus'
import type { SimServer } from './server.js'

export interface ApiQuery {
  seq?: number
  next_by_subj?: string
  last_by_subj?: string
}

/** What the leader's API says; only what the journal asks. */
export function leaderSays(server: SimServer, call: string, query: ApiQuery): ApiReply<unknown> {
  const { stream } = server
  if (call.startsWith('STREAM.MSG.DELETE')) {
    if (server.delete(query.seq ?? 0)) return { ok: true, value: { success: true } }
    return { ok: false, err_code: 10043, code: 400, description: 'no message found' }
  }
  const found =
    query.last_by_subj !== undefined
      ? stream.lastOf(query.last_by_subj)
      : query.next_by_subj !== undefined
        ? stream.nextOf([query.next_by_subj], query.seq ?? 1)
        : stream.get(query.seq ?? 0)
  if (!found) return { ok: false, err_code: API_ERROR.messageNotFound, code: 404, description: 'no message found' }
  const { subject, sequence, headers, data, time } = found
  const hdrs = Buffer.from(headers.text()).toString('base64')
  const at = new Date(time).toISOString()
  return { ok: true, value: { message: { subject, seq: sequence, hdrs, data: Buffer.from(data).toString('base64'), time: at } } }
}
