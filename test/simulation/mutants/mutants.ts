import { NOT_OF_THE_MODEL } from './mutants-more.js'

/** A fault put into the product where it is loaded: a text of a built file that stands there once is replaced. */
export interface Mutant {
  /** The rule of docs/architecture/invariants.md#rules that it breaks, or the model's mutant that it is. */
  breaks: string
  /** The configuration of configs.ts in which it is looked for. */
  config: string
  /** The first seed that catches it, where that is not the first of all: a seed's history is the same at each run. */
  seed?: number
  file: string
  find: string
  put: string
}

const ATTEMPT = 'packages/sdk/dist/attempt/decide-attempt.js'
const VIEW = 'packages/sdk/dist/journal/journal-view.js'
const LIFECYCLE = 'packages/core/dist/journal/state-machine.js'
const OPEN_PASS = 'packages/core/dist/open-passes/open-pass.js'
const OPEN_REQUESTS = 'packages/core/dist/open-passes/open-requests.js'
const OPEN_TREE = 'packages/core/dist/open-passes/pass-tree.js'
const JOURNAL = 'packages/bus/dist/journal/stream-journal.js'

/** Every one must be caught: by its name in the model where it is one of the model's. */
export const MUTANTS: Record<string, Mutant> = {
  '-first_lost': {
    config: 'attempts',
    breaks: 'rule 1',
    file: ATTEMPT,
    find: 'if (first && view.fence)',
    put: 'if (first && view.fence) return { kind: "run", attempt: view.attempt, guard: view.valid, proof: view.valid }; if (false)',
  },
  '-find_work': {
    config: 'deleted_attempts',
    breaks: 'rule 1',
    file: ATTEMPT,
    find: 'if (view.work?.sequence !== facts.sequence)',
    put: 'if (false)',
  },
  '-over': {
    config: 'overdue',
    breaks: 'decision 66',
    file: ATTEMPT,
    find: 'return facts.clock_measured && facts.now >=',
    put: 'return false && facts.now >=',
  },
  '-old': {
    seed: 4,
    config: 'deleted_attempts',
    breaks: 'decision 66',
    file: ATTEMPT,
    find: 'first && !mayBeDeleted(facts)',
    put: 'first',
  },
  fence_unproved: {
    seed: 6,
    config: 'bounced',
    breaks: 'rule 8',
    file: ATTEMPT,
    find: 'if (view.last !== view.valid)',
    put: 'view = { ...view, valid: view.last }; if (false)',
  },
  own_by_agent: {
    config: 'own_by_agent',
    breaks: 'rule 1',
    file: ATTEMPT,
    find: 'view.fence.nonce === facts.nonce',
    put: 'facts.delivered > 1',
  },
  own_by_process: {
    config: 'own_by_process',
    breaks: 'rule 1',
    file: 'packages/sdk/dist/worker/worker-loop.js',
    find: '(count++)',
    put: '(0)',
  },
  '-connection': { config: 'counts_lost', breaks: 'rule 2', file: ATTEMPT, find: 'facts.stored_at > facts.connected_at', put: 'true' },
  '-consumer': { config: 'recreated', breaks: 'rule 2', file: ATTEMPT, find: 'facts.stored_at > consumer_created_at', put: 'true' },
  skip_fence: {
    config: 'attempts',
    breaks: 'rule 2',
    file: ATTEMPT,
    find: "return { kind: 'fence', attempt, guard: view.valid };",
    put: "return { kind: 'run', attempt: view.attempt, guard: view.valid, proof: view.valid };",
  },
  '-proof_at_seq': {
    config: 'child_attempts',
    breaks: 'rule 3',
    file: OPEN_PASS,
    find: 'parent.journal.valid === step.proof',
    put: 'true',
  },
  no_cascade: { seed: 2, config: 'child', breaks: 'rule 3', file: OPEN_PASS, find: 'if (!step.parent)', put: 'if (true)' },
  '-del_order': {
    config: 'deleted',
    breaks: 'rule 4',
    file: 'services/audit/dist/deletion/deletion-order.js',
    find: 'rank(a) - rank(b) || a.sequence - b.sequence',
    put: 'rank(b) - rank(a) || a.sequence - b.sequence',
  },
  '-late': { seed: 2, config: 'late', breaks: 'rule 5', file: LIFECYCLE, find: 'step.time - asked > rules.id_window_ms', put: 'false' },
  '-ret_guard': {
    config: 'starve',
    breaks: 'the guards',
    file: 'services/dispatcher/dist/timekeeper/end-pass.js',
    find: 'return { ...message, guard: { subject: context.deps.bus.subjects.return(seen.due.key, SYSTEM), sequence: last?.sequence ?? 0 } };',
    put: 'return { ...message, guard: undefined };',
  },
  '-caller': {
    config: 'again_lagging',
    breaks: 'rule 6',
    file: VIEW,
    find: 'const before = step.guard?.sequence;\n    if (before === undefined)\n        return false;',
    put: 'const before = step.guard?.sequence; return before !== undefined;',
  },
  '-digest': {
    config: 'again',
    breaks: 'rule 6',
    file: 'packages/sdk/dist/journal/poll.js',
    find: 'differs(view, pass.digest)',
    put: 'false',
  },
  ack_first_dispatcher: {
    config: 'admission',
    breaks: 'rule 7',
    file: 'services/dispatcher/dist/intake/consume-requests.js',
    find: 'const ackDecision = await dispatch(context, delivery);',
    put: 'delivery.ack(); const ackDecision = await dispatch(context, delivery);',
  },
  ack_first_worker: {
    config: 'attempts',
    breaks: 'rule 7',
    file: 'packages/sdk/dist/worker/worker-loop.js',
    find: 'this.#leases.shorten(content.control.lease_ms);',
    put: 'this.#leases.shorten(content.control.lease_ms); delivery.ack();',
  },
  ack_out_of_turn: {
    seed: 13,
    config: 'crowded',
    breaks: 'rule 7',
    file: 'services/dispatcher/dist/intake/fair-scheduler.js',
    find: "if (!('ok' in ackDecision))",
    put: 'if (false)',
  },
  no_guard: {
    config: 'admission',
    breaks: 'the guards',
    file: JOURNAL,
    find: 'this.#publisher.send(first.publish,',
    put: 'this.#publisher.send({ ...first.publish, guard: undefined },',
  },
  wrong_expected: {
    config: 'ended_late',
    breaks: 'the guards',
    file: 'packages/sdk/dist/attempt/publish-return.js',
    // As the model's: the guard passes whatever was stored since.
    find: 'subject: subjects.journal(run.key), sequence: run.guard }',
    put: "subject: subjects.return(run.key, 'nobody'), sequence: 0 }",
  },
  unknown_is_won: {
    seed: 3,
    config: 'admission_unknown',
    breaks: 'outcomes',
    file: JOURNAL,
    find: "if (outcome.kind === 'refused' && outcome.reason !== 'closed')",
    put: "if (outcome.kind === 'unknown') return { ok: true, value: options.known === undefined ? plan([], 0).stored?.(1) : plan(options.known, 0).stored?.(1) }; if (outcome.kind === 'refused' && outcome.reason !== 'closed')",
  },
  stale_get: {
    config: 'ended_unknown',
    breaks: 'outcomes',
    file: 'packages/bus/dist/journal/journal-reader.js',
    // Dispatcher and timekeeper take a replica's word for the leader's.
    find: 'async read(key, from, until) {',
    put: 'async read(key, from, until) { return this.glimpse(key, until);',
  },
  stale_goes_on: {
    seed: 2,
    config: 'attempts',
    breaks: 'outcomes',
    file: 'packages/sdk/dist/attempt/publish-return.js',
    find: "if (typeof resultOrGuard === 'string')",
    put: "if (resultOrGuard === 'lost') return { publish: { ...message, guard: { ...message.guard, sequence: steps.at(-1).sequence } }, stored: () => 'returned' }; if (typeof resultOrGuard === 'string')",
  },
  dispatch_held: {
    seed: 2,
    config: 'hold',
    breaks: 'holds',
    file: 'services/dispatcher/dist/admission/held-passes.js',
    find: "if (body.verdict === 'deny')",
    put: 'if (false)',
  },
  any_digest: {
    config: 'hold',
    breaks: 'holds',
    file: 'packages/core/dist/approval/decisions.js',
    find: 'if (rules.digest !== undefined && digest !== rules.digest)',
    put: 'if (false)',
  },
  no_requests: { config: 'mute', breaks: 'the timekeeper', file: OPEN_REQUESTS, find: 'this.#pending.add(asked);', put: '' },
  no_expiry: {
    config: 'hold',
    breaks: 'the timekeeper',
    file: OPEN_PASS,
    find: 'const approval = journal.held.time +',
    put: 'const approval = Number.POSITIVE_INFINITY +',
  },
  literal_go_on: {
    config: 'approved_late',
    breaks: 'the timekeeper',
    file: OPEN_PASS,
    find: 'return at <= now ?',
    put: "return journal.state === 'open' ? { code: 'E010', why: 'deadline passed' } : at <= now ?",
  },
  no_loop_check: {
    config: 'loops',
    breaks: 'P3',
    file: 'packages/core/dist/admission/chain.js',
    find: 'if (new Set(chain).size < chain.length)',
    put: 'if (false)',
  },
  no_proof_check: {
    config: 'child_attempts',
    breaks: 'P3',
    file: 'packages/core/dist/admission/check-parent.js',
    find: 'if (parent.journal.valid !== named.proof)',
    put: 'if (false)',
  },
  no_budget: {
    config: 'chains',
    breaks: 'P5',
    file: 'services/dispatcher/dist/limits/budget-store.js',
    find: 'if (!charged)',
    put: 'charged = { ok: true, rest: undefined }; if (!charged)',
  },
  no_cancel: { config: 'child', breaks: 'P5', file: OPEN_PASS, find: 'if (known.cancelled)', put: 'if (false)' },
  cancel_unheard: { config: 'cancelled', breaks: 'P5', file: OPEN_TREE, find: 'pass.cancelled = true;', put: '' },
  ...NOT_OF_THE_MODEL,
}

/** Another way to do the same: it must hold. */
export const VARIANTS: Record<string, Mutant> = {
  own_never: { config: 'own_never', breaks: 'nothing', file: ATTEMPT, find: 'view.fence.nonce === facts.nonce', put: 'false' },
}
