import { expect, it } from 'vitest'
import type { Connection } from '../connection/connection.js'
import type { ReplyMux } from '../connection/reply-mux.js'
import { Publisher } from './publisher.js'

it('waits for an acknowledgment as long as the message says, and never longer than for other answers', () => {
  const waits: unknown[] = []
  const replies = { send: ({ timeout_ms }: { timeout_ms: number }) => void waits.push(timeout_ms) }
  const publisher = new Publisher({ maxPayload: 1_048_576 } as Connection, replies as unknown as ReplyMux, 5_000)
  for (const answer_ms of [undefined, 2_000, 9_000]) {
    publisher.send({ subject: 'return.alice.audit.given-id-1.passover', ...(answer_ms && { answer_ms }) }, () => undefined)
  }
  expect(waits).toEqual([5_000, 2_000, 5_000])
})
