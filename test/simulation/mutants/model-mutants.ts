/** Every configuration of the protocol model that was made before the code (docs/quality/simulation.md): each is one of configs.ts too. */
export const MODEL_CONFIGS: readonly string[] = [
  ...['admission', 'admission_crash', 'hold', 'two_keepers', 'attempts', 'attempts_unknown', 'recreated', 'counts_lost'],
  ...['own_by_process', 'own_by_agent', 'own_never', 'approved_late', 'child', 'child_hold', 'child_cancel', 'again', 'again_hold'],
  ...['starve', 'dishonest', 'deleted', 'deleted_attempts', 'deleted_dispatchers', 'deleted_again', 'deleted_recreated'],
  ...['deleted_starve', 'deleted_dishonest', 'deleted_untimed'],
]

/** Every mutant of it (MUTANTS), likewise: each is one of mutants.ts too. */
export const MODEL_MUTANTS: readonly string[] = [
  ...['no_guard', 'wrong_expected', 'ack_first_dispatcher', 'ack_first_worker', 'skip_fence', 'unknown_is_won', 'no_cascade', 'stale_get'],
  ...['stale_goes_on', 'dispatch_held', 'any_digest', 'no_requests', 'no_expiry', 'literal_go_on', 'own_by_process', 'own_by_agent'],
  ...['-connection', '-first_lost', '-proof_at_seq', '-find_work', '-del_order', '-late', '-ret_guard', '-caller'],
]
