import { encode, readHeaders, type StoredMessage, Subjects } from '@passover/bus'
import { type Fact, HEADER, keyText, type PassKey } from '@passover/schemas'
import { PassMemory } from '../src/pass/pass-memory.js'

/** Messages as the stream holds them, made by hand. */
export const KEY: PassKey = { originator: 'alice', subagent: 'scout', id: 'given-id-1' }
export const RULES = { id_window_ms: 3_600_000 }
export const T0 = 1_800_000_000_000
export const subjects = new Subjects()

export interface Message {
  stored: StoredMessage
  fact: Fact
}

export function message(
  sequence: number,
  subject: string,
  { headers = {}, body }: { headers?: Record<string, string>; body?: unknown } = {},
): Message {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const data = body === undefined ? new Uint8Array() : encode(body)
  const stored = { sequence, time: T0 + sequence, subject, headers: readHeaders(`NATS/1.0\r\n${lines.join('')}\r\n`), data }
  return { stored, fact: subjects.toFact(stored) }
}

export const first = (key: PassKey): Record<string, string> => ({
  'Nats-Expected-Last-Subject-Sequence': '0',
  'Nats-Expected-Last-Subject-Sequence-Subject': subjects.journal(key),
})

export const policy = { auto_review: false, auto_return: false, approvers: undefined, require_user_approval: false }

export function control(more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    id: KEY.id,
    originating_agent_id: KEY.originator,
    subagent_id: KEY.subagent,
    reason: 'review_changes',
    priority: 'medium',
    timeout_ms: 30_000,
    digest: 'd'.repeat(64),
    requested_at: T0,
    return_id: 'return-1',
    chain_depth: 1,
    ancestors: [KEY.originator],
    origination_chain: [{ agent_id: KEY.originator, timestamp: T0, action: 'initiated' }],
    root: KEY,
    policy,
    policy_name: 'system',
    policy_override: false,
    policy_version: 0,
    session_id: 'session-1',
    context_bytes: 600,
    ...more,
  }
}

export function output(more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    work_id: KEY.id,
    subagent_id: KEY.subagent,
    originating_agent_id: KEY.originator,
    status: 'completed',
    artifacts: [],
    summary: { findings: [], files_modified: 0, files_reviewed: 0, issues_found: 0, time_elapsed_ms: 5 },
    return_to: KEY.originator,
    auto_apply_allowed: false,
    metadata: {
      created_at: T0,
      started_at: T0 + 100,
      completed_at: T0 + 600,
      pass_over_id: KEY.id,
      chain_depth: 1,
      origination_chain: [],
      wall_time_ms: 600,
      subagent_compute_ms: 500,
      applied: false,
    },
    ...more,
  }
}

export const requestOf = (sequence: number, key = KEY): Message =>
  message(sequence, subjects.request(key.subagent, key.originator), {
    headers: { [HEADER.id]: key.id },
    body: { v: 1, request: { reason: 'review_changes' }, parts: [] },
  })

export const workOf = (
  sequence: number,
  { key = KEY, headers = {}, ...more }: { key?: PassKey; headers?: Record<string, string>; control?: unknown } = {},
): Message =>
  message(sequence, subjects.work(key, 'medium'), {
    headers: { ...first(key), [HEADER.request]: '1', [HEADER.requestedAt]: String(T0 + 1), [HEADER.timeout]: '30000', ...headers },
    body: { v: 1, control: more.control ?? control({ id: key.id }), parts: [] },
  })

export const returnOf = (
  sequence: number,
  {
    key = KEY,
    by = KEY.subagent,
    headers = {},
    body,
  }: { key?: PassKey; by?: string; headers?: Record<string, string>; body?: unknown } = {},
): Message =>
  message(sequence, subjects.return(key, by), { headers: { [HEADER.attempt]: '1', ...headers }, body: body ?? { v: 1, output: output() } })

export function remember(messages: Message[]): PassMemory {
  const memory = new PassMemory(KEY)
  for (const { stored, fact } of messages) {
    if (fact.type === 'step' || fact.type === 'event' || fact.type === 'decision') memory.add(stored, fact, RULES)
    else throw new Error(`not of ${keyText(KEY)}`)
  }
  return memory
}
