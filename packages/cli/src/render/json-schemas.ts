import {
  agentRecord,
  answeredDecision,
  answeredPass,
  custodyErasure,
  custodyHold,
  custodyScope,
  deadLetter,
  fileModificationArtifact,
  inboxItem,
  notice,
  passError,
  passKey,
  passRow,
  queriedPass,
  revokedAgent,
  shownFile,
  statsAnswer,
  timelineEntry,
  workOutput,
} from '@passover/schemas'
import { z } from 'zod'
import { strictSchema } from './strict-schema.js'

/**
 * Schemas of the --json output of each command, by command name. docs/reference/json-output.md is generated from them
 * (infra/setup/json-output.mjs), and tests compare the documents of every command with them. A field that is missing here fails the tests.
 */

const text = z.string()
const number = z.number()
const flag = z.boolean()
const yes = z.literal(true)
const open = z.looseObject({})
/** `unverified` is set if the installation does not verify the names of people. */
const names = { unverified: yes.optional() }
const marks = { ...names, self: yes.optional() }

/** Document of a failed command, printed instead of its own. */
export const FAILURE = z.strictObject({ error: z.looseObject({ code: text, message: text, hint: text.optional() }) })

const change = z.strictObject({ path: text, before: z.unknown().optional(), after: z.unknown().optional() })
const place = { line: number.optional(), column: number.optional() }
/** A warning about a valid policy. */
const warning = z.strictObject({
  code: text,
  severity: text,
  message: text,
  file: text.optional(),
  ...place,
  path: text,
  found: text,
  expected: text,
  suggestion: text.optional(),
  places: z.array(z.strictObject({ path: text, level: text.optional(), ...place })),
})
/** A warning about a proposed change that its diff does not show, such as hidden characters. */
const changeWarning = z.strictObject({ number, path: text, kind: text, message: text, characters: z.array(text).optional() })
/** Level at which a constraint of a command worker is enforced on this machine. */
const guarantee = z.strictObject({ constraint: text, level: text, mechanism: text })
const badEntry = z.strictObject({
  sequence: number.optional(),
  segment: number.optional(),
  pass: text.optional(),
  rule: text,
  what: text,
  by: text.optional(),
  count: number.optional(),
  examples: z.array(text).optional(),
})
const verdict = {
  ok: flag,
  first: badEntry.optional(),
  faults: number,
  shown: z.array(badEntry),
  remarks: number,
  untrusted: number,
  remarked: z.array(badEntry),
  counts: open,
  parts: open.optional(),
  index: open.optional(),
  segments: number,
  head: open.optional(),
  begins: z.unknown().optional(),
  removed: open.optional(),
  unsaved: text.optional(),
}
const settled = z.array(
  z.strictObject({
    id: text,
    kind: text,
    outcome: text,
    restored: z.array(text).optional(),
    left: z.array(z.strictObject({ path: text, kept: text.optional() })).optional(),
  }),
)
const interrupted = z.array(z.strictObject({ id: text, kind: text, written: z.array(text), total: number }))
/** Contents of a file that has changed since the subagent saw it. */
const sides = z.strictObject({ old_content: text, current: text.optional(), new_content: text, encoding: z.enum(['utf8', 'base64']) })
const conflict = z.strictObject({ number, path: text, kind: text, why: text, sides: sides.optional() })
const planned = z.strictObject({
  number,
  digest: text,
  path: text,
  operation: text,
  verdict: text,
  why: text.optional(),
  sides: sides.optional(),
})
const issued = {
  name: text,
  role: text,
  public_key: text,
  account: text,
  issued_at: number,
  expires_at: number.optional(),
  revoked_at: number.optional(),
  credentials: text,
}
const token = {
  id: text,
  name: text,
  kind: z.enum(['person', 'agent']),
  scopes: z.array(text),
  created_at: number,
  note: text.optional(),
  expires_at: number.optional(),
}
const sums = { passes: number, completed: number, failed: number, discarded: number }
const told = z.object({ ...timelineEntry.shape, pass: text, originator: text, subagent: text })
const happening = z.strictObject({
  sequence: number,
  time: number,
  kind: text,
  originator: text.optional(),
  subagent: text.optional(),
  id: text.optional(),
  by: text.optional(),
  ...names,
  attempt: number.optional(),
  detail: text.optional(),
  notice: notice.optional(),
})
/** An inbox item. `digest` is the value for `--digest`; item `apply` has `return_digest` instead. */
const due = z.strictObject({ ...inboxItem.shape, digest: text.optional(), return_digest: text.optional() })
const { row: _row, return: _return, history: _history, below: _below, digest: _digest, due: _due, ...stored } = answeredPass.shape
/** With --full-request. `text` is set if the bytes of a part are UTF-8; otherwise `data_base64`, or why the part was not loaded. */
const wholeRequest = z.strictObject({
  id: text,
  originator: text,
  subagent: text,
  digest: text,
  request: open,
  parts: z.array(
    z.strictObject({
      name: text,
      size: number,
      sha256: text,
      text: text.optional(),
      data_base64: text.optional(),
      not_loaded: text.optional(),
    }),
  ),
})
/** The output of a pass that did not end well may lack fields. */
const partialOutput = workOutput.partial()
const result = {
  output: partialOutput.optional(),
  error: passError.optional(),
  raw_output: z.unknown().optional(),
  unreadable: text.optional(),
}
const sent = z.strictObject({ id: text, from: text, to: text, retry_of: text.optional() })
const answered = z.union([sent, workOutput])
const decided = z.strictObject({
  id: text,
  item: z.enum(['dispatch', 'return', 'apply']),
  decided: flag,
  status: text.optional(),
  verdict: text.optional(),
  by: text.optional(),
  ...marks,
  at: number.optional(),
  digest: text.optional(),
  modifications: z.record(text, text).optional(),
})
/** A dead letter that could not be settled, with the error. */
const notSettled = z.strictObject({ id: text, error: z.strictObject({ code: text, message: text, hint: text.optional() }) })
const requeuedLetter = z.strictObject({
  id: text,
  requeued: yes,
  action: z.literal('requeue'),
  requeued_as: text,
  by: text,
  ...names,
  status: text,
})
/** A dead letter that another person had already settled. */
const settledBefore = z.strictObject({
  id: text,
  requeued: z.literal(false).optional(),
  dropped: z.literal(false).optional(),
  ...deadLetter.shape.settlement.unwrap().shape,
})
const droppedLetter = z.strictObject({ id: text, dropped: yes, by: text, ...names, reason: text.optional() })
const wouldSettle = (verb: 'requeue' | 'drop') => z.strictObject({ dry_run: yes, [`would_${verb}`]: z.array(text) })
const published = z.strictObject({
  version: number,
  by: text.optional(),
  ...names,
  file: text.optional(),
  base: number.optional(),
  unchanged: yes.optional(),
  dry_run: flag.optional(),
  changes: z.array(change).optional(),
  warnings: z.array(warning).optional(),
})
/** A value that a level of the policy sets for a field. */
const saidAt = z.strictObject({ level: text, path: text, value: z.unknown().optional() })
const running = { url: text, pid: number, directory: text, http: text.optional() }

export const JSON_SHAPES: Record<string, z.ZodType> = {
  init: z.strictObject({
    directory: text,
    written: z.array(text),
    kept: z.array(text),
    next: z.array(z.strictObject({ command: text, note: text.optional() })),
  }),
  up: z.union([
    z.strictObject({
      state: z.literal('running'),
      ...running,
      health: text,
      server_version: text.optional(),
      server_pid: number.optional(),
    }),
    z.strictObject({
      state: z.enum(['starting', 'already_running']),
      ...running,
      started_at: z.unknown().optional(),
      port_not_taken: number.optional(),
      http_not_served: z.unknown().optional(),
    }),
  ]),
  request: answered,
  retry: answered,
  work: z.strictObject({
    agent: text,
    replicas: number.optional(),
    restarts: number.optional(),
    ...sums,
    sandbox: z.array(guarantee).optional(),
  }),
  list: z.array(z.strictObject({ ...passRow.shape, workers: number.optional() })),
  show: z.union([
    z.strictObject({
      ...stored,
      ...passRow.shape,
      request_digest: text.optional(),
      due: due.optional(),
      revoked: revokedAgent.optional(),
      timeline: z.array(timelineEntry),
      below: z.array(passRow),
      decisions: z.array(z.strictObject({ ...answeredDecision.shape, counts: flag.optional(), why: text.optional() })),
      workers: number.optional(),
      ...result,
      warnings: z.array(changeWarning).optional(),
    }),
    wholeRequest,
  ]),
  logs: z.strictObject({ id: text, status: text, timeline: z.array(timelineEntry), error: passError.optional() }),
  watch: z.array(happening),
  top: z.strictObject({
    time: number,
    queued: number,
    running: number,
    held: number,
    last_minute: z.strictObject({ passes: number, p50_ms: number.optional(), p99_ms: number.optional() }),
    slowest: z.array(z.strictObject({ id: text, originator: text, subagent: text, status: text, lasted_ms: number })),
    agents: z.array(
      z.strictObject({ name: text, up: number, busy: number, places: number, queued: number, running: number, waiting: number }),
    ),
  }),
  cancel: z.union([
    z.strictObject({
      id: text,
      cancelled: flag.optional(),
      status: text.optional(),
      by: text.optional(),
      ...names,
      below: z.array(text).optional(),
      dry_run: yes.optional(),
      would_cancel: z.array(text).optional(),
    }),
    z.strictObject({
      from: text,
      to: text.optional(),
      session: text.optional(),
      ended: number.optional(),
      still_open: number.optional(),
      by: text.optional(),
      ...names,
      dry_run: yes.optional(),
      would_cancel: z.array(text).optional(),
    }),
  ]),
  inbox: z.array(due),
  approve: decided,
  deny: decided,
  apply: z.strictObject({
    id: text,
    directory: text,
    digest: text,
    modifications: z.array(planned),
    files: z.array(shownFile),
    dry_run: yes.optional(),
    interrupted: interrupted.optional(),
    decision: z.strictObject({ person: text, verdict: text, time: number, sequence: number, ...marks }).optional(),
    key: passKey.optional(),
    applied: z.array(text),
    already: z.array(text).optional(),
    conflicts: z.array(conflict).optional(),
    held_back: z.array(text).optional(),
    rejected: z.array(text),
    applied_at: number.optional(),
    applied_by: text.optional(),
    recorded: flag.optional(),
    settled,
  }),
  undo: z.strictObject({
    id: text,
    directory: text,
    key: passKey.optional(),
    undone: z.array(text).optional(),
    conflicts: z.array(z.strictObject({ path: text, why: text })).optional(),
    recorded: flag.optional(),
    settled: settled.optional(),
    undone_by: text.optional(),
    undone_at: number.optional(),
    ...names,
    dry_run: yes.optional(),
    interrupted: interrupted.optional(),
    would_undo: z.array(text).optional(),
  }),
  'dlq list': z.array(deadLetter),
  'dlq show': z.strictObject({
    ...deadLetter.shape,
    error: passError,
    data_base64: text.optional(),
    text: text.optional(),
    stderr: text.optional(),
    timeline: z.array(timelineEntry),
  }),
  'dlq requeue': z.union([z.array(z.union([requeuedLetter, settledBefore, notSettled])), wouldSettle('requeue')]),
  'dlq drop': z.union([z.array(z.union([droppedLetter, settledBefore, notSettled])), wouldSettle('drop')]),
  'audit query': z.array(queriedPass),
  'audit tail': z.array(
    z.union([queriedPass, z.strictObject({ sequence: number, time: number, by: text, ...names, custody: text, said: text })]),
  ),
  'audit stats': statsAnswer.options[0].omit({ ok: true }),
  'audit export': z.strictObject({ folder: text, passes: number, unlogged: number, files: z.array(text), summary: open }),
  'audit rebuild': z.strictObject({
    source: text,
    passes: number,
    unchanged: number,
    rewritten: number,
    removed: number,
    kept: number,
    unlogged: number,
    indexes: z.array(z.unknown()),
    index: z.strictObject({ records: number, mended: number }).optional(),
    ms: number,
  }),
  'audit hold add': z.strictObject({ hold: number, scope: custodyScope, reason: text, by: text, ...names }),
  'audit hold remove': z.strictObject({ released: number, by: text, ...names }),
  'audit hold list': z.array(custodyHold),
  'audit erase': z.union([z.array(custodyErasure), custodyErasure]),
  agents: z.array(
    z.strictObject({
      name: text,
      subagent: flag,
      originates: text,
      up: number,
      busy: number,
      places: number,
      idle_workers: number,
      queued: number,
      running: number,
      waiting: number,
      originated: number,
      durable_returns: flag,
      parts_bytes: number,
      parts_max: number.optional(),
      description: text,
      registered_by: text,
      ...names,
      revoked_at: number.optional(),
    }),
  ),
  'agents add': z.strictObject({ ...agentRecord.shape, ...names }),
  'agents set': z.strictObject({ ...agentRecord.shape, ...names }),
  'agents show': z.strictObject({
    ...agentRecord.shape,
    ...names,
    workers: z.strictObject({ up: number, busy: number, places: number, queued: number }),
  }),
  'agents remove': z.strictObject({
    name: text,
    dry_run: yes.optional(),
    removed: yes.optional(),
    by: text.optional(),
    ...names,
    open: number,
    workers: number,
  }),
  'agents prompt': z.strictObject({ agent: text, template: text, policy_version: number, prompt: text }),
  'auth init': z.strictObject({
    directory: text,
    operator: text,
    system_account: text,
    core_account: text,
    server_config: text,
    ca: text.optional(),
    principals: z.array(z.strictObject({ name: text, role: text })),
  }),
  'auth add': z.strictObject({ ...issued, server_told: flag, registered: flag.optional() }),
  'auth rotate': z.strictObject({ ...issued, server_told: flag }),
  'auth revoke': z.strictObject({
    ...issued,
    server_told: flag,
    tokens_revoked: z.array(text),
    registry_told: flag.optional(),
    open_passes: number.optional(),
  }),
  'auth list': z.array(z.strictObject(issued)),
  'auth check': z.strictObject({
    ok: flag,
    agent: text,
    level: z.enum(['open', 'permissions', 'isolated', 'unknown']),
    probes: z.array(open),
    stored: z.array(text),
  }),
  'policy check': z.strictObject({ file: text, valid: yes, warnings: z.array(warning), agents_checked: flag }),
  'policy push': published,
  'policy pull': published,
  'policy edit': published,
  'policy diff': z.strictObject({ from: text, to: text, changes: z.array(change) }),
  'policy history': z.array(
    z.strictObject({
      version: number,
      time: number,
      by: text,
      ...names,
      reason: text.optional(),
      digest: text,
      in_force: flag,
      changed: text,
    }),
  ),
  'policy rollback': published,
  'policy explain': z.strictObject({
    from: text,
    to: text,
    policy: text,
    version: number.optional(),
    registered: flag.optional(),
    originates: text.optional(),
    policy_name: text,
    policy_override: z.unknown().optional(),
    fields: z.array(
      z.strictObject({
        field: text,
        value: z.unknown().optional(),
        level: text,
        path: text,
        at: text.optional(),
        share: number.optional(),
        also: z.array(saidAt).optional(),
        said: z.array(saidAt),
      }),
    ),
  }),
  'policy set': published,
  'policy enable': published,
  'policy disable': published,
  verify: z.strictObject(verdict),
  evidence: z.strictObject({
    file: text,
    pass: passKey,
    entries: number,
    segments: number,
    parts: number,
    fingerprint: text,
    public_key: text,
    left_out: z.array(text).optional(),
    ok: flag,
    first: badEntry.optional(),
  }),
  'evidence verify': z.union([
    z.strictObject({ ok: z.literal(false), what: text }),
    z.strictObject({
      ...verdict,
      pass: passKey,
      made_by: text,
      made_at: number,
      fingerprint: text,
      archived_segments: z.array(number),
      left_out: z.array(text).optional(),
    }),
  ]),
  'evidence key': z.strictObject({ file: text, fingerprint: text, public_key: text }),
  replay: z.union([
    z.array(told),
    z.array(z.strictObject({ pass: text, again: text.optional(), before: text, after: text.optional(), skipped: text.optional() })),
    z.strictObject({
      events: number,
      decided: number,
      same: number,
      otherwise: number,
      taken: number,
      kinds: z.record(text, number),
      differences: z.array(open),
      left_out: number,
    }),
  ]),
  gateway: z.strictObject({ state: z.literal('running'), url: text, document: text }),
  'gateway token add': z.strictObject({ token: text, ...token }),
  'gateway token list': z.array(z.strictObject(token)),
  'gateway token revoke': z.strictObject({ id: text, revoked: yes }),
  doctor: z.strictObject({
    ok: flag,
    checks: z.array(z.strictObject({ name: text, state: z.enum(['ok', 'look', 'broken']), text: text, mend: text.optional() })),
    sandbox: z.array(guarantee),
  }),
  'config show': z.strictObject({
    settings: z.array(z.strictObject({ name: text, value: z.unknown().optional(), from: text })),
    ignored: z.array(z.strictObject({ path: text, why: text, hint: text })),
  }),
  chaos: z.looseObject({ ok: flag, passover: text, seed: number, again: text, seconds: number, failures: z.array(text), report: open }),
  completion: z.union([z.strictObject({ shell: text, script: text }), z.array(text)]),
}

/** Shapes that several documents share, by their names in the reference. */
export const NAMED_SHAPES: Record<string, z.ZodType> = {
  PassRow: passRow,
  PassKey: passKey,
  TimelineEntry: timelineEntry,
  WorkOutput: workOutput,
  PartialOutput: partialOutput,
  Due: due,
  FileModification: fileModificationArtifact,
  PassError: passError,
  Decision: answeredDecision,
  InboxItem: inboxItem,
  ShownFile: shownFile,
  DeadLetter: deadLetter,
  QueriedPass: queriedPass,
  AgentRecord: agentRecord,
  Hold: custodyHold,
  Erasure: custodyErasure,
  Scope: custodyScope,
  Notice: notice,
  FindingEntry: badEntry,
  Change: change,
  PlaybackEntry: told,
  Happening: happening,
  Decided: decided,
  Published: published,
}

/** Returns the command that a command line names, or `undefined` if it names none. */
export function commandOf(line: readonly string[]): string | undefined {
  const names = new Set(Object.keys(JSON_SHAPES))
  for (const [at, word] of line.entries()) {
    const found = [3, 2, 1].map((length) => line.slice(at, at + length).join(' ')).find((name) => names.has(name))
    if (found) return found
    if (!word.startsWith('-') && at === 0) return undefined
  }
  return undefined
}

/** Cache of strict schemas, including those that commands share. */
const STRICT = new Map<z.ZodType, z.ZodType>()

/**
 * Compares a document with the schema of its command.
 *
 * @returns the differences; undefined if there are none, or the line names no command.
 */
export function shapeFault(line: readonly string[], document: unknown): string | undefined {
  if (FAILURE.safeParse(document).success) return undefined
  const command = commandOf(line)
  if (command === undefined) return undefined
  const shape = JSON_SHAPES[command]
  const { error } = (shape && strictSchema(shape, STRICT))?.safeParse(document) ?? {}
  return error && `passover ${command} --json: ${z.prettifyError(error)}`
}
