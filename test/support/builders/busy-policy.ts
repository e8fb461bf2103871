import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** For load of one pair in one session: the loop breaker (max_passes_per_session, 1,000 by default) and max_open (10,000) would refuse it. */
export const BUSY = { version: 0, document: { defaults: { max_passes_per_session: 1_000_000_000, max_open: 1_000_000_000 } } }

/** The same as a file, for PASSOVER_POLICY. */
export function busyPolicyFile(): string {
  const path = join(mkdtempSync(join(tmpdir(), 'passover-policy-')), 'policy.json')
  writeFileSync(path, JSON.stringify(BUSY.document))
  return path
}
