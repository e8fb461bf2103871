import type { Bus, StoredMessage } from '@passover/bus'
import type { Fact } from '@passover/schemas'

export interface ReadBeforeOptions {
  filters: string[]
  /** First sequence to read. Default: the first one in the stream. */
  from?: number
  /** Sequence before which the read ends. */
  until: number
  headers_only?: boolean
}

/**
 * Passes the stored messages of a sequence range to `onMessage`, in order. Ends at the first matching message at or after `until`: reading on to the
 * end of the stream takes much longer if many messages were stored while no audit was running.
 */
export async function readBefore(
  bus: Pick<Bus, 'bounds' | 'follow'>,
  { until, ...options }: ReadBeforeOptions,
  onMessage: (stored: StoredMessage, fact: Fact) => void | Promise<void>,
): Promise<void> {
  const from = options.from ?? (await bus.bounds()).first
  if (from >= until) return
  let reached: () => void = () => undefined
  const end = new Promise<void>((resolve) => {
    reached = resolve
  })
  await using reader = await bus.follow({ ...options, from }, (stored, fact) =>
    stored.sequence < until ? onMessage(stored, fact) : reached(),
  )
  await Promise.race([end, reader.caughtUp, reader.closed])
}
