import type { Archive } from '@passover/archive'
import type { ObjectStore, Table } from '@passover/bus'
import { makeInstance, type PassRecord } from '@passover/schemas'
import type { Parts } from '../running.js'
import { untilRead } from '../until-read.js'
import { Aging } from './aging.js'

/** What leaves the archive: what is older than the policy keeps, and what people have erased (decision 87). */
export class Removal {
  constructor(readonly aging: Aging) {}

  get trouble(): string | undefined {
    return this.aging.trouble
  }

  look(): void {
    void this.aging.look()
  }

  async stop(): Promise<void> {
    await this.aging.stop()
  }
}

interface Opened {
  archive: Archive
  objects: ObjectStore
  table: Table<PassRecord>
}

/** The removal of an audit's parts. */
export function openRemoval(parts: Parts, { archive, objects, table }: Opened): Removal {
  const { deps, options, manifest, archiver, rows, logging, custody } = parts
  const { bus, clock, log, random } = deps
  const aging = new Aging({
    bus,
    clock,
    log,
    archive,
    manifest,
    objects,
    table,
    rows,
    watch: custody,
    rules: { id_window_ms: options.id_window_ms },
    retention_days: () => logging.retention_days,
    unsealedParts: () => archiver.unsealedParts(),
    untilRead: (sequence) => untilRead(parts, sequence),
    instance: makeInstance(random),
  })
  return new Removal(aging)
}
