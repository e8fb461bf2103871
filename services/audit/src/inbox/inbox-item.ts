import { type CheckSchema, evaluateRelease } from '@passover/core'
import { type InboxItem, keyText, sha256, type WorkControl } from '@passover/schemas'
import type { LoadDeps, LoadedPass } from '../pass/load-pass.js'
import { previewRequest } from '../pass/request-preview.js'
import { previewReturn } from '../pass/return-preview.js'
import { buildCheckedRecord } from '../records/build-record.js'
import { buildPassHistory, controlOf } from '../records/pass-history.js'
import { type RevokedAgents, revokedOf } from '../watchers/agent-watcher.js'

export interface InboxItemDeps extends LoadDeps {
  /** Validates outputs against their output_schema. */
  check?: CheckSchema | undefined
  /** Revoked agents. Absent if the asker does not get revocations. */
  revoked?: RevokedAgents | undefined
}

/** Returns the item of a pass that waits for a person now, with its preview, or `undefined` if there is none. */
export async function findInboxItem(
  { bus, rules, check, revoked = new Map() }: InboxItemDeps,
  loaded: LoadedPass,
): Promise<InboxItem | undefined> {
  const { memory } = loaded
  const { record } = await buildCheckedRecord(memory, rules, check)
  const { awaits, key } = record
  const framed = memory.step('work') ?? memory.step('held')
  const control = framed && controlOf(framed)
  if (!awaits || awaits.expires_at <= bus.now() || !control) return undefined
  const place = ancestryOf(control)
  const common = {
    ...awaits,
    ...key,
    ...place,
    ...revokedOf(revoked, place.chain),
    reason: control.reason,
    requested_at: record.requested_at ?? awaits.since,
    policy: { name: control.policy_name, version: control.policy_version },
  }
  if (awaits.item === 'dispatch') {
    const asked = messageAt(loaded, control.request_sequence) ?? (await bus.journal.message(control.request_sequence))
    const held = 'held' in memory.journal ? memory.journal.held : undefined
    return { ...common, digest: held?.digest ?? control.digest, asked: await previewRequest(bus, control, asked) }
  }
  const stored = memory.journal.state === 'done' ? messageAt(loaded, memory.journal.return.sequence) : undefined
  if (!stored) return undefined
  const returned = await previewReturn(bus, key, stored)
  const why = awaits.item === 'return' ? holdReasonOf(loaded, control) : undefined
  return { ...common, digest: sha256(stored.data), ...(why ? { why } : {}), ...(returned ? { returned } : {}) }
}

function ancestryOf(control: WorkControl): Pick<InboxItem, 'root' | 'chain'> & Partial<InboxItem> {
  const { root, ancestors, subagent_id, parent, session_id, user_id, priority, policy, local_person } = control
  return {
    root,
    chain: [...ancestors, subagent_id],
    ...(parent ? { parent: keyText(parent) } : {}),
    session_id,
    ...(user_id === undefined ? {} : { user_id }),
    priority,
    ...(policy.approvers ? { approvers: policy.approvers } : {}),
    ...(local_person === undefined ? {} : { local_person }),
  }
}

function messageAt({ messages }: LoadedPass, sequence: number) {
  return messages.find(({ stored }) => stored.sequence === sequence)?.stored
}

/** Returns why an output awaits its release, by the same rule as on the originator's side. */
function holdReasonOf({ memory }: LoadedPass, { policy }: WorkControl): string | undefined {
  const { returned } = buildPassHistory(memory)
  const release = returned && 'output' in returned ? evaluateRelease(returned.output as never, policy, false) : undefined
  return release && !release.deliver ? release.why : undefined
}
