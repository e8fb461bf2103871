import type { Bus, StoredMessage } from '@passover/bus'

export interface ReadRange {
  from: number
  up_to: number
}

/** Passes the stored messages of a range of sequences to `onMessage`, in order. */
export async function readRange(
  bus: Bus,
  { from, up_to }: ReadRange,
  onMessage: (stored: StoredMessage) => Promise<void> | void,
): Promise<void> {
  if (from > up_to) return
  let done: () => void = () => undefined
  const reached = new Promise<void>((resolve) => {
    done = resolve
  })
  let ended = false
  await using reader = await bus.follow({ from }, async (stored) => {
    if (stored.sequence <= up_to && !ended) await onMessage(stored)
    if (stored.sequence < up_to || ended) return
    ended = true
    done()
  })
  await Promise.race([reached, reader.caughtUp, reader.closed])
}

/** Passes the custody and policy events of a range to `onMessage`. Such events never leave the stream. */
export async function readCustodyAndPolicy(
  bus: Bus,
  { from, up_to }: ReadRange,
  onMessage: (stored: StoredMessage) => void,
): Promise<void> {
  if (from > up_to) return
  await using reader = await bus.follow({ filters: [bus.subjects.all('custody'), bus.subjects.all('policy')], from }, (stored) => {
    if (stored.sequence >= from && stored.sequence <= up_to) onMessage(stored)
  })
  await Promise.race([reader.caughtUp, reader.closed])
}
