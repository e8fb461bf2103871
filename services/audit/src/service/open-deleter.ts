import type { Archive } from '@passover/archive'
import type { ObjectStore } from '@passover/bus'
import { makeInstance } from '@passover/schemas'
import { Deleter } from '../deletion/deleter.js'
import { isHeld } from '../erasure/legal-hold.js'
import { deadLettersMs } from './open-retention.js'
import type { AuditComponents } from './parts.js'

/** Opens the deleter, using the parts of an audit. */
export function openDeleter(parts: AuditComponents, { archive, objects }: { archive: Archive; objects: ObjectStore }): Promise<Deleter> {
  const { deps, options, manifest, agents, acknowledged, archiver, custody, reloader } = parts
  const { bus, clock, log, random } = deps
  const { delete_lease_ms: lease_ms, id_window_ms } = options
  const rules = { id_window_ms }
  return Deleter.open({
    bus,
    clock,
    log,
    archive,
    manifest,
    objects,
    agents,
    acknowledged,
    deadLettersMs: () => deadLettersMs(parts),
    isHeld: (pass) => isHeld(custody.custody, { bus, archive, rules, unsealedOf: (key) => archiver.unsealedOf(key) }, pass),
    rules,
    unsealed: () => archiver.unsealed(),
    unsealedOf: (key) => archiver.unsealedOf(key),
    isGhost: (text) => reloader.isKnownGhost(text),
    read: () => readBy(parts),
    holder: makeInstance(random),
    lease_ms,
  })
}

/** Returns the position that both the archiver and the projector have reached. After a start, either of them may be behind the other. */
function readBy({ projector, archiver }: AuditComponents): { sequence: number; time: number } {
  const { position, time } = archiver.position < projector.position ? archiver : projector
  return { sequence: position, time }
}
