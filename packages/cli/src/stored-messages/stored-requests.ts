import { ARCHIVE_BUCKET, Archive, Manifest } from '@passover/archive'
import type { Bus, StoredMessage } from '@passover/bus'
import type { AnsweredPass } from '@passover/schemas'

/** Reads the requests of passes from the stream or, once they have left it, from the archive, which is opened on first use. */
export class StoredRequests {
  readonly #bus: Bus
  #archive: Promise<Archive> | undefined

  constructor(bus: Bus) {
    this.#bus = bus
  }

  /** Returns the request of a pass that was loaded with its history, or `undefined` if it is no longer stored. Throws BusReadError. */
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
