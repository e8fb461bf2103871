import { ARCHIVE_BUCKET, Archive, Manifest } from '@passover/archive'
import type { Bus, StoredMessage } from '@passover/bus'
import type { AnsweredPass } from '@passover/schemas'

/** Reads the requests of passes, from the stream or, once they have left it, from the archive. The archive is opened when it is first needed. */
export class StoredRequests {
  readonly #bus: Bus
  #archive: Promise<Archive> | undefined

  constructor(bus: Bus) {
    this.#bus = bus
  }

  /** The request of a pass that was asked for with its history; undefined: it is stored nowhere. Throws BusReadError. */
  async of({ history = [] }: Pick<AnsweredPass, 'history'>): Promise<StoredMessage | undefined> {
    const sequence = history.find(({ kind }) => kind === 'request')?.sequence
    if (sequence === undefined) return undefined
    const stored = await this.#bus.journal.message(sequence)
    if (stored) return stored
    this.#archive ??= openArchive(this.#bus)
    return (await (await this.#archive).messages([sequence]))[0]
  }
}

async function openArchive(bus: Bus): Promise<Archive> {
  return new Archive(await Manifest.open(bus), await bus.objects(ARCHIVE_BUCKET))
}
