import { z } from 'zod'
import { count, filled, json, jsonRecord, list, record, text, time } from '../base/bounded-types.js'
import { passError } from '../base/errors.js'
import { agentName, PRIORITIES, passId, passKey } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'
import { message } from '../pass/message.js'
import { originationEntry } from '../pass/metadata.js'
import { workOutput } from '../pass/output.js'
import { requestControl } from '../pass/request.js'
import { agentRecord } from '../policy/agent-record.js'
import { agentPairOverride, budget, effectivePolicy } from '../policy/policy.js'

/**
 * Bodies of stream messages (docs/architecture/protocol.md#payloads). A context or output is split into parts that can be dropped or forwarded
 * without decoding.
 */
export const WIRE_VERSION = 1

export const PART_INLINE_BYTES = 256 * 1024
export const PARTS_INLINE_BYTES = 512 * 1024

/** `context`, `messages`, `tool_results`, `file:<path>`, `artifact:<n>`, `output`. */
export const part = z.object({
  name: filled(LIMITS.path + 76),
  /** SHA-256 (hex) of the raw bytes for a file's content or an output's text, of the RFC 8785 form for anything else. */
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  size: z
    .int()
    .min(0)
    .max(1024 ** 3),
  /** Inlined bytes. If absent, they are in the object bucket of `owner` under their hash. */
  data: z.instanceof(Uint8Array).optional(),
  owner: agentName.optional(),
})
export type Part = z.infer<typeof part>

/** Parts of a context: its files, and the other parts that it is split into. */
const parts = list(part, LIMITS.files + 2, { holds: uniqueNames, message: 'two parts have the same name' })

function uniqueNames(given: Part[]): boolean {
  return given.length < 2 || new Set(given.map(({ name }) => name)).size === given.length
}

/** Body of `request.<subagent>.<originator>` in msgpack. In JSON the body is a plain PassOverRequest. */
export const requestEnvelope = message(
  z.object({
    v: z.literal(WIRE_VERSION),
    request: requestControl,
    parts,
    /** Copy of `work_context.session_id`, so that admission need not decode the context part. */
    session_id: text(LIMITS.short).optional(),
    /** Set if the caller named no session: `session_id` is then the connection's own. */
    unnamed_session: z.literal(true).optional(),
  }),
)
export type RequestEnvelope = z.infer<typeof requestEnvelope>

/** Rights of a pass: parent ∩ pair ∩ subagent, narrowed by the request's constraints. */
export const rights = z.object({
  can_modify_files: z.boolean(),
  can_run_tools: z.boolean(),
  tools: list(text(LIMITS.word), LIMITS.tools).optional(),
  constraints: list(text(LIMITS.word), LIMITS.constraints),
})
export type Rights = z.infer<typeof rights>

/** The control frame: all that was decided about the pass, as readers of a `work` or `held` step see it. Only `passover` writes it. */
export const workControl = z.object({
  id: passId,
  originating_agent_id: agentName,
  subagent_id: agentName,
  reason: text(LIMITS.line),
  priority: z.enum(PRIORITIES),
  /** Overall deadline, ms from the work step's server time; already limited by the remaining time of the parent. */
  timeout_ms: z.int().positive(),
  return_required: z.boolean(),
  auto_apply_on_success: z.boolean(),
  constraints: list(text(LIMITS.word), LIMITS.constraints),
  expected_output_type: text(LIMITS.word).optional(),
  override: agentPairOverride.optional(),
  digest: text(LIMITS.word),
  request_sequence: z.int().positive(),
  requested_at: time,
  /** Proves the parent, together with the sequence of its last step (docs/architecture/protocol.md#parents-and-chains). */
  return_id: text(LIMITS.short),
  chain_depth: z.int().positive(),
  max_chain_depth: z.int().positive(),
  /** Originators above the subagent, root first: ["alice", "scout"]. */
  ancestors: list(agentName, LIMITS.chain),
  origination_chain: list(originationEntry, LIMITS.chain_entries),
  root: passKey,
  parent: passKey.optional(),
  proof: z.int().positive().optional(),
  /** The parent's deadline, server ms; a held child expires with it. */
  parent_deadline: time.optional(),
  rights,
  policy: effectivePolicy,
  policy_name: text(LIMITS.short),
  policy_override: z.boolean(),
  policy_version: z.int().min(0),
  max_attempts: z.int().positive(),
  lease_ms: z.int().positive(),
  budget: budget.optional(),
  retry_of: passId.optional(),
  user_id: text(LIMITS.short).optional(),
  session_id: text(LIMITS.short),
  /** Session of a child, which is that of its root. Set only if the child's own `session_id` differs. */
  counted_session: text(LIMITS.short).optional(),
  /** Set if the caller named no session: `session_id` is then not counted. */
  unnamed_session: z.literal(true).optional(),
  /** Size of the transmitted context: the sum of all parts, in bytes. */
  context_bytes: z.int().min(0),
  /** Encoding that the originator used; the return uses the same. */
  reply_type: z.enum(['msgpack', 'json']),
  trace_id: text(LIMITS.short).optional(),
  /**
   * The only person of a local server, if the chain begins with their name: they may decide about it although they take part in it. A local server
   * does not check names.
   */
  local_person: agentName.optional(),
})
export type WorkControl = z.infer<typeof workControl>

/** A policy as it is sent: its differences from the numbered base, and the fields of the base that it lacks. Without a number it is complete. */
export const policyFrame = effectivePolicy
  .partial()
  .extend({ base: z.int().positive().optional(), lacks: list(text(LIMITS.word), Object.keys(effectivePolicy.shape).length).optional() })
export type PolicyFrame = z.infer<typeof policyFrame>

/** The control frame as it is sent: without what the step's subject and headers, its policy or the rest of the frame imply. */
export const controlFrame = workControl.partial().extend({ policy: policyFrame })
export type ControlFrame = z.infer<typeof controlFrame>

/** Body of a work step. A held step has no parts: they stay in the request that it names. */
export const workEnvelope = z.object({ v: z.literal(WIRE_VERSION), control: controlFrame, parts })
export type WorkEnvelope = z.infer<typeof workEnvelope>
export const heldEnvelope = z.object({ v: z.literal(WIRE_VERSION), control: controlFrame, expires_ms: z.int().positive() })
export type HeldEnvelope = z.infer<typeof heldEnvelope>

/** Fields of an output. Not validated with the envelope, but by the reader of the output. */
const members = record(z.string(), z.unknown(), LIMITS.keys)

/**
 * Body of a return: a worker's output, or the error that ended the pass. `brief` is an output without the fields that the return's subject and
 * headers, the rest of it, and `base` (default: 1) imply. In both forms a large artifact is replaced by `{ part: "artifact:<n>" }`, and its bytes
 * (RFC 8785 JSON) are in `parts`; a large text is replaced by `{ part: "output", begins }`.
 */
export const returnEnvelope = message(
  z.union([
    z.object({ v: z.literal(WIRE_VERSION), brief: members, base: count.optional(), parts: list(part, LIMITS.artifacts).optional() }),
    z.object({ v: z.literal(WIRE_VERSION), output: members, parts: list(part, LIMITS.artifacts).optional() }),
    z.object({ v: z.literal(WIRE_VERSION), error: passError, raw_output: json.optional() }),
  ]),
)
export type ReturnEnvelope = z.infer<typeof returnEnvelope>

export const decisionBody = z.object({
  v: z.literal(WIRE_VERSION),
  verdict: z.enum(['approve', 'deny']),
  /** Digest of what was shown; a decision about anything else does not count. */
  digest: text(LIMITS.word),
  reason: text(LIMITS.line).optional(),
  /** For item `apply`: `taken` or `rejected` by the digest of each modification. A modification that is not listed is rejected. */
  modifications: record(text(LIMITS.word), z.enum(['taken', 'rejected']), LIMITS.artifacts).optional(),
  /** True if the person approves even if the credentials of an agent in the chain were revoked. Without it such an approval of a dispatch does not count. */
  despite_revocation: z.boolean().optional(),
})
export type DecisionBody = z.infer<typeof decisionBody>

/** Bodies of `event.…`, by kind. */
export const cancelBody = z.object({ v: z.literal(WIRE_VERSION), reason: text(LIMITS.line).optional() })
export const startedBody = z.object({ v: z.literal(WIRE_VERSION), attempt: count, started_at: time })
export const progressBody = z.object({
  v: z.literal(WIRE_VERSION),
  attempt: count,
  message: text(LIMITS.line).optional(),
  fraction: z.number().min(0).max(1).optional(),
})
export const appliedBody = z.object({
  v: z.literal(WIRE_VERSION),
  applied_by: text(LIMITS.short),
  applied_at: time,
  /** Paths that were written, and paths that were left out, with the reason in `conflicts`. */
  applied: list(text(LIMITS.path), LIMITS.files),
  rejected: list(text(LIMITS.path), LIMITS.files),
  conflicts: list(z.object({ path: text(LIMITS.path), why: text(LIMITS.line) }), LIMITS.files).optional(),
  /** Digests of the modifications that were applied or, with `undone`, undone. The output contains the modifications themselves. */
  digests: list(text(LIMITS.word), LIMITS.artifacts).optional(),
  /** True if the files were restored to their previous state. */
  undone: z.boolean().optional(),
  /** Identifies this application, so that a repeated event counts once. */
  nonce: text(LIMITS.word).optional(),
})
export const lateBody = z.object({ v: z.literal(WIRE_VERSION), attempt: count, output: workOutput.or(jsonRecord) })
export const deadLetterBody = z.object({
  v: z.literal(WIRE_VERSION),
  /** Stream sequence of the dead message. */
  sequence: count,
  error: passError,
  /** The offending bytes, up to 512 KiB. */
  bytes: z.instanceof(Uint8Array).optional(),
  truncated: z.boolean().optional(),
})
export const violationBody = z.object({
  v: z.literal(WIRE_VERSION),
  /** Sequence of the impossible, ignored step. */
  sequence: count,
  what: text(LIMITS.path),
})
/** No person decided in time about an item. Published by `passover` after that time. */
export const expiredBody = z.object({ v: z.literal(WIRE_VERSION), item: z.literal('return') })
export type CancelBody = z.infer<typeof cancelBody>
export type StartedBody = z.infer<typeof startedBody>
export type ProgressBody = z.infer<typeof progressBody>
export type AppliedBody = z.infer<typeof appliedBody>
export type LateBody = z.infer<typeof lateBody>
export type DeadLetterBody = z.infer<typeof deadLetterBody>
export type ViolationBody = z.infer<typeof violationBody>
export type ExpiredBody = z.infer<typeof expiredBody>

/** Body of `agent.<person>`: a new version of a registry record, published before it is written. If `record` is absent, the agent was removed. */
export const agentBody = z.object({ v: z.literal(WIRE_VERSION), name: agentName, record: agentRecord.optional() })
export type AgentBody = z.infer<typeof agentBody>

/**
 * Updates which agents are revoked with a version of a record. Maps each to the sequence of the first message that revoked it. A removed agent stays
 * revoked; a record without `revoked_at` takes the revocation back.
 */
export function noteRevocation(revoked: Map<string, number>, { name, record }: AgentBody, sequence: number): void {
  if (!record) return
  if (record.revoked_at === undefined) revoked.delete(name)
  else if (!revoked.has(name)) revoked.set(name, sequence)
}
