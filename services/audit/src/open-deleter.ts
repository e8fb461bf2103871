import type { Archive } from '@passover/archive'
import type { ObjectStore } from '@passover/bus'
import { makeInstance } from '@passover/schemas'
import { Deleter } from './deleter.js'
import type { Parts } from './running.js'

/** The deleter of an audit's parts. */
export function openDeleter(parts: Parts, { archive, objects }: { archive: Archive; objects: ObjectStore }): Promise<Deleter> {
  const { deps, options, manifest, agents, acknowledged, archiver } = parts
  const { bus, clock, log, random } = deps
  const { dead_letters_ms, id_window_ms } = options
  return Deleter.open({
    bus,
    clock,
    log,
    archive,
    manifest,
    objects,
    agents,
    acknowledged,
    dead_letters_ms,
    rules: { id_window_ms },
    unsealed: () => archiver.unsealed(),
    position: () => Math.min(parts.projector.position, archiver.position),
    holder: makeInstance(random),
  })
}
