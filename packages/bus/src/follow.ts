import type { Fact } from '@passover/schemas'
import type { BusContext } from './bus-context.js'
import type { FollowOptions } from './bus-hearing.js'
import type { Stored } from './bus-messages.js'
import { BusReadError } from './errors.js'
import { StreamReader } from './reader.js'

/** Reads the main stream: each message is handed on with what its subject and headers say. */
export function followStream(
  { link, api, subjects }: BusContext,
  { filters, from, headers_only, in_gulps, onWentBack }: FollowOptions,
  onMessage: (stored: Stored, fact: Fact) => void | Promise<void>,
): Promise<StreamReader> {
  const { stream } = subjects
  const reader = new StreamReader(
    { link, api },
    {
      stream,
      filters,
      start: from ?? 1,
      headers_only,
      in_gulps,
      onMessage: (stored) => onMessage(stored, subjects.toFact(stored)),
      onWentBack: (last) => {
        link.report(new BusReadError(`stream ${stream} went back to ${last}`, 'refused_by_server'))
        onWentBack?.(last)
      },
    },
  )
  return reader.open()
}
