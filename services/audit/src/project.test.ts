import { type MessageHeaders, readHeaders, type Stored } from '@passover/bus'
import type { PassKey, RequestFact } from '@passover/schemas'
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { Projector, type ProjectorDeps } from './project.js'

const REQUEST_MS = 30_000

/** A projector whose reloads are only counted; `running` says how many are under way. */
function projector() {
  const wanted: string[] = []
  const reloads = {
    get size() {
      return wanted.length
    },
    want: (key: PassKey) => void wanted.push(key.id),
    busy: () => undefined,
  }
  const idle = { busy: () => undefined }
  const deps = {
    log: pino({ level: 'silent' }),
    rules: { id_window_ms: 3_600_000 },
    records: idle,
    rows: { get: () => undefined },
    reloads,
    violations: idle,
    schemas: idle,
    inbox: idle,
    acknowledged: idle,
    undelivered: idle,
  }
  const options = { writes: () => true, open_ms: 3_000, request_ms: REQUEST_MS, ended_bytes: 1 << 20 }
  return { wanted, made: new Projector({ ...deps, isAgent: () => false } as unknown as ProjectorDeps, options) }
}

const headers: MessageHeaders = readHeaders('')

function request(sequence: number): [Stored, RequestFact] {
  const time = 1_000 + sequence
  const stored = { subject: 'request.audit.alice', sequence, time, headers, data: new Uint8Array(8) }
  return [
    stored,
    { type: 'request', originator: 'alice', subagent: 'audit', id: `request-${sequence}`, sequence, time, timeout_ms: undefined },
  ]
}

test('a backlog of old requests is not read again all at once: the reader would have to wait for that', () => {
  const { made, wanted } = projector()
  for (let sequence = 1; sequence <= 5_000; sequence += 1) void made.take(...request(sequence))
  made.sweep(1_000 + REQUEST_MS)
  expect(wanted).toEqual([])
  made.sweep(7_000 + REQUEST_MS)
  expect(wanted.length).toBeGreaterThan(0)
  expect(wanted.length).toBeLessThan(100)
  expect(wanted[0]).toBe('request-1')
  expect(made.notes.size).toBe(5_000 - wanted.length)
})
