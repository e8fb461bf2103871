import type { Mutant } from './mutants.js'

const STANDING = 'services/audit/dist/deletion/deletion-eligibility.js'
const PROJECT = 'services/audit/dist/projection/projector.js'
const ARCHIVE = 'services/audit/dist/archive/archiver.js'
const DELETER = 'services/audit/dist/deletion/deleter.js'

/** Of what the audit keeps, deletes and tells (P4), and of what waits for it: the model has none of these. */
export const NOT_OF_THE_MODEL: Record<string, Mutant> = {
  beside_suspects: {
    config: 'poison',
    breaks: 'decision 142',
    file: 'packages/sdk/dist/worker/crash-isolation.js',
    find: "const entry = { stage: 'reading' };\n        this.#suspects.add(entry);",
    put: "const entry = { stage: 'reading' }; return { turn: async () => true, end: () => undefined };",
  },
  malformed_apart: {
    config: 'unreadable',
    breaks: 'docs/architecture/malformed-requests.md',
    file: 'services/dispatcher/dist/messages/reject.js',
    find: 'if (id === undefined)',
    put: 'if (true)',
  },
  malformed_unkept: {
    config: 'unreadable',
    breaks: 'docs/architecture/malformed-requests.md',
    file: 'services/dispatcher/dist/messages/reject.js',
    find: 'return storeDeadLetter(context, key, { sequence, error, data });',
    put: 'return { ok: true };',
  },
  malformed_begun: {
    config: 'unreadable',
    breaks: 'docs/architecture/malformed-requests.md',
    file: 'services/dispatcher/dist/messages/parse-request.js',
    find: 'if (broken)',
    put: 'if (false)',
  },
  delete_open: {
    seed: 2,
    config: 'retention',
    breaks: 'retention',
    file: STANDING,
    find: "if (journal.state !== 'done')\n        return { may: 'later' };",
    put: "if (journal.state !== 'done')\n        return { may: 'go' };",
  },
  delete_young: {
    seed: 2,
    config: 'retention',
    breaks: 'rule 4',
    file: DELETER,
    find: '({ last_time }) => last_time + 2 * rules.id_window_ms < now',
    put: '({ last_time }) => last_time < now',
  },
  delete_undelivered: {
    seed: 5,
    config: 'undelivered',
    breaks: 'retention',
    file: STANDING,
    find: 'if (due === undefined || due <= now ||',
    put: 'if (true ||',
  },
  archive_forgets: {
    config: 'retention',
    breaks: 'P4',
    file: ARCHIVE,
    find: 'this.#current.add(stored, passNamedBy(stored, fact), session);',
    put: "if (fact.type !== 'acknowledged') this.#current.add(stored, passNamedBy(stored, fact), session);",
  },
  archive_unchained: {
    config: 'retention',
    breaks: 'P4',
    file: ARCHIVE,
    find: 'const chain_before = this.#last?.chain_after ??',
    put: 'const chain_before = undefined ??',
  },
  record_stays: {
    config: 'retention',
    breaks: 'P4',
    file: 'services/audit/dist/records/record-store.js',
    find: 'if (standing && !supersedes(record.stored, standing))',
    put: 'if (standing)',
  },
  index_unread: {
    seed: 6,
    config: 'audit_killed',
    breaks: 'P4',
    file: 'services/audit/dist/records/record-store.js',
    find: 'this.#listener.found(found.data, found.revision);',
    put: 'this.#listener.wrote(record, found.revision);',
  },
  record_of_before: {
    config: 'deleted_untimed',
    breaks: 'P4',
    file: PROJECT,
    find: "if (known && !(fact.type === 'step' && this.#beginsAnew(known, fact)))",
    put: 'if (known)',
  },
  violation_untold: {
    seed: 2,
    config: 'dishonest',
    breaks: 'P4',
    file: PROJECT,
    find: 'this.#deps.violations.report(fact.key, fact.sequence, ignored);',
    put: '{}',
  },
  release_any: {
    config: 'release',
    breaks: 'releases',
    file: 'packages/sdk/dist/delivery/deliver.js',
    find: 'if (release.deliver)',
    put: 'if (true)',
  },
  release_any_digest: {
    seed: 3,
    config: 'release',
    breaks: 'releases',
    file: 'packages/core/dist/approval/decisions.js',
    find: 'if (rules.digest !== undefined && digest !== rules.digest)',
    put: 'if (false)',
  },
  policy_stays: {
    config: 'policy',
    breaks: 'P5',
    file: 'services/dispatcher/dist/limits/live-policy.js',
    find: 'if (version <= this.#current.version)',
    put: 'if (true)',
  },
  policy_half_told: {
    seed: 13,
    config: 'policy',
    breaks: 'P5',
    file: 'services/dispatcher/dist/limits/live-policy.js',
    find: 'const value = await this.#store.rollForward();\n        this.#settled = sequence;',
    put: 'const value = undefined; this.#settled = sequence;',
  },
}
