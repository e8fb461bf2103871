import { ARCHIVE_BUCKET, Archive, Manifest } from '@passover/archive'
import { type Bus, BusReadError, type StoredMessage } from '@passover/bus'
import type { AnsweredPass, WorkControl } from '@passover/schemas'

/** Reads the requests of passes from the stream or, once they have left it, from the archive, which is opened on first use. */
export class StoredRequests {
  readonly #bus: Bus
  #archive: Promise<Archive> | undefined

  constructor(bus: Bus) {
    this.#bus = bus
  }

  /**
   * Returns the request of a pass, or `undefined` if it is no longer stored. A pass that was neither admitted nor held must be loaded with its history.
   * Throws BusReadError.
   */
  async of({ control, history = [] }: Pick<AnsweredPass, 'control' | 'history'>): Promise<StoredMessage | undefined> {
    const { request_sequence } = (control ?? {}) as Partial<WorkControl>
    const sequence = request_sequence ?? history.find(({ kind }) => kind === 'request')?.sequence
    if (sequence === undefined) return undefined
    const stored = await this.#bus.journal.message(sequence)
    if (stored) return stored
    this.#archive ??= openArchive(this.#bus)
    return (await (await this.#archive).messages([sequence]))[0]
  }
}

/** Returns the request of a pass, or `undefined` if it is no longer in the stream and not in the archive, or the person may not read the archive. */
export async function storedRequestOf(bus: Bus, pass: Pick<AnsweredPass, 'control' | 'history'>): Promise<StoredMessage | undefined> {
  try {
    return await new StoredRequests(bus).of(pass)
  } catch (error) {
    if (error instanceof BusReadError && error.reason === 'permission') return undefined
    throw error
  }
}

async function openArchive(bus: Bus): Promise<Archive> {
  return new Archive(await Manifest.open(bus), await bus.objects(ARCHIVE_BUCKET))
}
