import { segmentOf, segmentRange } from '@passover/archive'
import type { Bus, StoredMessage } from '@passover/bus'
import type { Fact } from '@passover/schemas'
import { sessionOf } from '../pass/control-frame.js'
import type { Projector } from '../projection/projector.js'
import type { CustodyWatcher } from '../watchers/custody-watcher.js'
import type { RollbackDetector } from '../watchers/rollback-detector.js'
import type { Archiver } from './archiver.js'

export interface CatchUp extends AsyncDisposable {
  /** The last sequence that it takes; 0: there is nothing to catch up with. */
  readonly to: number
  /** Whether it took all of that; undefined once it did. */
  readonly whole: Promise<boolean> | undefined
}

/**
 * Archives what fills whole segments already, by a reader of its own: the archive must not wait for the projection, which at a start reads much
 * again, and whose process may be killed before it is through.
 */
export async function catchUp(bus: Bus, archiver: Archiver, back: RollbackDetector): Promise<CatchUp> {
  const { last } = await bus.bounds()
  const { from } = archiver
  const to = segmentRange(segmentOf(last + 1)).first - 1
  if (from > to) return { to: 0, whole: undefined, [Symbol.asyncDispose]: async () => undefined }
  const reader = await bus.follow({ from, onWentBack: back.onRollback }, (stored, fact) =>
    stored.sequence <= to ? back.unlessLost(() => archiver.take(stored, fact, sessionOf(stored, fact))) : undefined,
  )
  const ended = Promise.race([reader.caughtUp.then(() => true), reader.closed.then(() => false)])
  const running: { to: number; whole: Promise<boolean> | undefined } & AsyncDisposable = {
    to,
    whole: ended.then(async (whole) => {
      // Its last segments are whole even where messages at their ends were deleted.
      if (whole) archiver.sealTo(to)
      running.whole = whole ? undefined : Promise.resolve(false)
      await reader[Symbol.asyncDispose]()
      return whole
    }),
    [Symbol.asyncDispose]: () => reader[Symbol.asyncDispose](),
  }
  return running
}

/** What the reader does with each message; what the archiver catches up with by itself is not for it, and the rest comes after that. */
export function createMessageHandler(
  { projector, archiver, custody }: { projector: Projector; archiver: Archiver; custody: CustodyWatcher },
  behind: CatchUp,
): (stored: StoredMessage, fact: Fact) => void | Promise<void> {
  return (stored, fact) => {
    const isGoing = custody.isGoing(stored.sequence)
    // Nobody writes a record of what an erasure has not taken out yet.
    if (isGoing) projector.position = stored.sequence
    const busy = isGoing ? undefined : projector.take(stored, fact)
    if (stored.sequence <= behind.to) return busy
    const take = () => archiver.take(stored, fact, sessionOf(stored, fact))
    const sealing = behind.whole ? behind.whole.then((whole) => (whole ? take() : undefined)) : take()
    return busy || sealing ? Promise.all([busy, sealing]).then(() => undefined) : undefined
  }
}
