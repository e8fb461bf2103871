import { createHash } from 'node:crypto'

/** Lower case only: where a file system does not tell cases apart, twins must not meet. */
const SAFE = /^[a-z0-9_-]{1,64}$/
const NONE = '~none'
const SHOWN = 32

/** Name of a session's file. What is not safe as a name is told apart by its hash; `~` is in no safe one. */
export function sessionFile(session_id: string): string {
  return `session-${safeName(session_id)}-passes.jsonl`
}

function safeName(session_id: string): string {
  if (session_id === '') return NONE
  if (SAFE.test(session_id)) return session_id
  const shown = session_id
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, '_')
    .slice(0, SHOWN)
  return `${shown}~${createHash('sha256').update(session_id).digest('hex').slice(0, 16)}`
}

/** YYYY-MM in UTC, as the records' keys have it. */
export function monthOf(time: number): string {
  return new Date(time).toISOString().slice(0, 7)
}
