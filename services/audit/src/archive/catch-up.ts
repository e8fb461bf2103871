import { segmentOf, segmentRange } from '@passover/archive'
import type { Bus, StoredMessage } from '@passover/bus'
import type { Fact } from '@passover/schemas'
import { sessionOf } from '../pass/control-frame.js'
import type { Projector } from '../projection/projector.js'
import type { CustodyWatcher } from '../watchers/custody-watcher.js'
import type { RollbackDetector } from '../watchers/rollback-detector.js'
import type { Archiver } from './archiver.js'

export interface CatchUp extends AsyncDisposable {
  /** Last sequence that the catch-up archives, or 0 if there is nothing to catch up on. */
  readonly to: number
  /** Resolves to true once everything up to `to` is read, or to false if the reader closed before. `undefined` after success. */
  readonly whole: Promise<boolean> | undefined
}

/**
 * Archives the segments that the stream already fills, with a reader of its own. The archive must not wait for the projection, which reads many
 * messages again after a start and may be killed before it is done.
 */
export async function catchUp(bus: Bus, archiver: Archiver, back: RollbackDetector): Promise<CatchUp> {
  const { last } = await bus.bounds()
  const { from } = archiver
  const to = segmentRange(segmentOf(last + 1)).first - 1
  if (from > to) return { to: 0, whole: undefined, [Symbol.asyncDispose]: async () => undefined }
  const reader = await bus.follow({ from, onRollback: back.onRollback }, (stored, fact) =>
    stored.sequence <= to ? back.unlessLost(() => archiver.take(stored, fact, sessionOf(stored, fact))) : undefined,
  )
  const ended = Promise.race([reader.caughtUp.then(() => true), reader.closed.then(() => false)])
  const running: { to: number; whole: Promise<boolean> | undefined } & AsyncDisposable = {
    to,
    whole: ended.then(async (whole) => {
      // Seals the last segments even if messages at their end were deleted.
      if (whole) archiver.sealTo(to)
      running.whole = whole ? undefined : Promise.resolve(false)
      await reader[Symbol.asyncDispose]()
      return whole
    }),
    [Symbol.asyncDispose]: () => reader[Symbol.asyncDispose](),
  }
  return running
}

/**
 * Returns the message handler of the main reader. Messages up to `behind.to` go to the projector only, because the catch-up archives them; later ones
 * are archived after the catch-up is complete.
 */
export function createMessageHandler(
  { projector, archiver, custody }: { projector: Projector; archiver: Archiver; custody: CustodyWatcher },
  behind: CatchUp,
): (stored: StoredMessage, fact: Fact) => void | Promise<void> {
  return (stored, fact) => {
    const isGoing = custody.isGoing(stored.sequence)
    // Messages that are being erased must not get into a record.
    if (isGoing) projector.position = stored.sequence
    const busy = isGoing ? undefined : projector.take(stored, fact)
    if (stored.sequence <= behind.to) return busy
    const take = () => archiver.take(stored, fact, sessionOf(stored, fact))
    const sealing = behind.whole ? behind.whole.then((whole) => (whole ? take() : undefined)) : take()
    return busy || sealing ? Promise.all([busy, sealing]).then(() => undefined) : undefined
  }
}
