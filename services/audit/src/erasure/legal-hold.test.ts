import { encode, readHeaders, type StoredMessage, Subjects } from '@passover/bus'
import type { CustodyLog } from '@passover/core'
import type { PassKey } from '@passover/schemas'
import { expect, it } from 'vitest'
import type { IdLookupDeps } from './id-lookup.js'
import { isHeld } from './legal-hold.js'

const KEY: PassKey = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }
const OF = 'alice.audit.given-id-1'
const subjects = new Subjects()
/** The session `held` is held, and nothing else. */
const custody = { needsSessions: true, stays: (_: PassKey, session?: string) => session === 'held' } as unknown as CustodyLog

function message(sequence: number, subject: string, headers = '', body: unknown = { v: 1 }): StoredMessage {
  const type = 'Content-Type: application/msgpack\r\n'
  return { sequence, time: sequence, subject, headers: readHeaders(`NATS/1.0\r\n${type}${headers}\r\n`), data: encode(body, 'msgpack') }
}

function asked(sequence: number, session_id: string, more: object = {}): StoredMessage {
  return message(sequence, 'request.audit.alice', 'Passover-Id: given-id-1\r\n', { v: 1, session_id, ...more })
}

function refused(sequence: number, request: number, code = 'E004'): StoredMessage {
  const guard = `Nats-Expected-Last-Subject-Sequence: 0\r\nNats-Expected-Last-Subject-Sequence-Subject: *.${OF}.*\r\n`
  const said = `${guard}Passover-Request: ${request}\r\nPassover-Code: ${code}\r\n`
  return message(sequence, `return.${OF}.passover`, said, { v: 1, error: { code, message: 'no' } })
}

/** Whether the pass of some messages stays; 'read' where everything under its id would be read for that. */
async function stays(sequences: number[], archived: StoredMessage[]): Promise<boolean | 'read'> {
  const archive = {
    messages: async (wanted: readonly number[]) => archived.filter(({ sequence }) => wanted.includes(sequence)),
    mayBegin: async () => archived.some(({ subject }) => subject.endsWith('.passover') || subject.startsWith('work.')),
  }
  const journal = {
    message: async () => undefined,
    newest: async () => undefined,
    history: async () => {
      throw new Error('read')
    },
  }
  const deps = { bus: { subjects, journal }, archive, rules: { id_window_ms: 1_000 }, unsealedOf: () => [] } as unknown as IdLookupDeps
  return await isHeld(custody, deps, { key: KEY, session: undefined, sequences }).catch((error: Error) => error.message as 'read')
}

const event = (sequence: number) => message(sequence, `event.${OF}.cancel.alice`)

// Fails where each is read whole: agents can have requests refused, and store messages under ids that nobody asked for, without end.
it('reads nothing more of messages under an id that nothing began, nor of refused requests', async () => {
  expect(await stays([1, 2], [event(1), event(2)])).toBe(false)
  expect(await stays([2], [asked(1, 'free'), refused(2, 1)])).toBe(false)
  expect(await stays([1, 2], [asked(1, 'free'), refused(2, 1)])).toBe(false)
  expect(await stays([1, 2], [asked(1, 'held'), refused(2, 1)])).toBe(true)
  expect(await stays([2], [asked(1, 'held'), refused(2, 1)])).toBe(true)
  expect(await stays([1, 2, 3], [asked(1, 'free'), refused(2, 1), asked(3, 'held')])).toBe(true)
})

// Fails where what is here is taken for all: the session of such a pass is said elsewhere.
it('reads all where the messages alone do not say the session', async () => {
  const root = { originator: 'bob', subagent: 'alice', id: 'given-id-0', return_id: 'r', proof: 1 }
  const child = { id: KEY.id, originating_agent_id: 'alice', subagent_id: 'audit', reason: 'x', return_required: true, parent: root }
  expect(await stays([3], [asked(1, 'held'), refused(2, 1), event(3)])).toBe('read')
  expect(await stays([1, 2, 3], [asked(1, 'free'), refused(2, 1), event(3)])).toBe('read')
  expect(await stays([1, 2], [asked(1, 'free', { request: child }), refused(2, 1)])).toBe('read')
  expect(await stays([1, 2], [asked(1, 'free'), refused(2, 1, 'E005')])).toBe('read')
  expect(await stays([2], [refused(2, 1)])).toBe('read')
  expect(await stays([1, 2], [refused(2, 1)])).toBe('read')
})
