import type { AgentRecord, Part, PassKey, RequestControl, Step, StepKind, WorkControl, WorkOutput } from '@passover/schemas'
import { type AdmitInput, admit } from '../src/index.js'

/** What the unit tests of core are made of: one honest example of each thing, to be varied. */

export const T0 = 1_700_000_000_000
export const WINDOW = 3_600_000
export const RULES = { id_window_ms: WINDOW }

/** An id that carries the time. */
export function timedId(time = T0, tail = 'abcdefghijklmn'): string {
  return `0aaaaaaa${time.toString(36).padStart(9, '0')}_${tail}`
}

export const KEY: PassKey = { originator: 'alice', subagent: 'audit', id: timedId() }

export function step(kind: StepKind, sequence: number, more: Partial<Step> = {}): Step {
  const by = { held: 'passover', work: 'medium', fence: 'audit', return: 'audit' }[kind]
  const attempt = { held: 0, work: 0, fence: 2, return: 1 }[kind]
  return {
    type: 'step',
    kind,
    key: KEY,
    by,
    sequence,
    time: T0 + sequence,
    attempt,
    timeout_ms: kind === 'work' ? 30_000 : undefined,
    ...more,
  }
}

export function agent(name: string, roles: Partial<AgentRecord['roles']> = {}, more: Partial<AgentRecord> = {}): AgentRecord {
  return { name, roles: { originates: 'always', subagent: true, ...roles }, registered_by: 'bob', updated_at: T0, ...more }
}

export function request(more: Partial<RequestControl> = {}): RequestControl {
  return { id: KEY.id, originating_agent_id: 'alice', subagent_id: 'audit', reason: 'review_changes', return_required: true, ...more }
}

export function part(name: string, size: number): Part {
  return { name, hash: 'a'.repeat(64), size }
}

export function admitInput(more: Partial<AdmitInput> = {}): AdmitInput {
  const asked = more.request ?? request()
  return {
    request: asked,
    subject: { originator: asked.originating_agent_id, subagent: asked.subagent_id },
    request_sequence: 7,
    requested_at: T0,
    now: T0 + 10,
    parts: [part('context', 100), part('messages', 200), part('file:a.ts', 300)],
    digest: 'd'.repeat(64),
    session_id: 'session-1',
    reply_type: 'msgpack',
    agents: { originator: agent('alice'), subagent: agent('audit'), open: false },
    policy: { version: 3, document: {} },
    id_window_ms: WINDOW,
    return_id: 'return-1',
    ...more,
  }
}

/** The control frame of an admitted pass. */
export function control(more: Partial<AdmitInput> = {}): WorkControl {
  const admission = admit(admitInput(more))
  if (admission.kind !== 'admit') throw new Error(`not admitted: ${JSON.stringify(admission)}`)
  return admission.control
}

export function output(more: Partial<WorkOutput> = {}): WorkOutput {
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
      subagent_compute_ms: 450,
      applied: false,
    },
    ...more,
  }
}
