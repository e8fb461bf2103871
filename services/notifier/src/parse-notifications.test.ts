import { type Bus, encode, readHeaders, type StoredMessage, Subjects } from '@passover/bus'
import type { Step } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { NotificationReader } from './notification-reader.js'
import { readNotifications } from './parse-notifications.js'

const KEY = { originator: 'alice', subagent: 'scout', id: 'given-id-1' }
const T0 = 1_800_000_000_000
const subjects = new Subjects()

function stored(sequence: number, subject: string, of: { headers: Record<string, string>; body: unknown }): StoredMessage {
  const guard = {
    'Nats-Expected-Last-Subject-Sequence': String(sequence - 2),
    'Nats-Expected-Last-Subject-Sequence-Subject': subjects.journal(KEY),
  }
  const all = { ...guard, 'Content-Type': 'application/msgpack', ...of.headers }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return { sequence, time: T0 + sequence, subject, headers: readHeaders(`NATS/1.0\r\n${lines.join('')}\r\n`), data: encode(of.body) }
}

/** The notices of a pass that may run no tools and wants only issues told, when this came back. */
async function told(body: object) {
  const policy = { base: 1, notify_on_return: 'only_issues', can_run_tools: false }
  const work = stored(2, subjects.work(KEY, 'medium'), {
    headers: { 'Passover-Digest': 'd'.repeat(64), 'Passover-Request': '1', 'Passover-Timeout': '30000', 'Passover-Nonce': 'n' },
    body: { v: 1, control: { policy }, parts: [] },
  })
  const guard = { 'Nats-Expected-Last-Subject-Sequence': '2' }
  const back = stored(3, subjects.return(KEY, 'scout'), { headers: { ...guard, 'Passover-Attempt': '1', 'Passover-Nonce': 'm' }, body })
  const bus = { subjects, journal: { history: async () => [work, back] } } as unknown as Bus
  const { notices } = await readNotifications(bus, subjects.toFact(back) as Step, { id_window_ms: 3_600_000 })
  return notices.map((notice) => ('code' in notice ? notice.code : notice.event))
}

const brief = (artifacts: unknown[] = []) => ({ artifacts, metadata: { created_at: T0, started_at: T0, completed_at: T0 } })

describe('what is told of a return', () => {
  it('is nothing where only issues are wanted and there is none', async () => {
    expect(await told({ v: 1, brief: brief() })).toEqual([])
  })

  it('is what its originator gets instead of an output that broke the rights of the pass', async () => {
    const artifact = { type: 'tool_result', tool_name: 'ls', call_id: '1', input: {}, output: '', status: 'success' }
    expect(await told({ v: 1, brief: brief([artifact]) })).toEqual(['E013'])
  })

  it('is an error, whatever output stands beside it', async () => {
    expect(await told({ v: 1, error: null, output: {}, brief: brief() })).toEqual(['E021'])
  })
})

describe('reading passes', () => {
  it('reads a journal once for all returns in it that count for nothing', async () => {
    const headers = { 'Passover-Digest': 'd'.repeat(64), 'Passover-Request': '1', 'Passover-Timeout': '30000', 'Passover-Nonce': 'n' }
    const work = stored(2, subjects.work(KEY, 'medium'), { headers, body: { v: 1, control: { policy: { base: 1 } }, parts: [] } })
    const junk = Array.from({ length: 1_000 }, (_, n) =>
      stored(3 + n, subjects.return(KEY, 'scout'), { headers: { 'Passover-Attempt': '2', 'Passover-Nonce': 'm' }, body: { v: 1 } }),
    )
    let read = 0
    const history = async () => {
      read += 1
      return [work, ...junk]
    }
    const newest = async (subject: string) => (subject === work.subject ? work : undefined)
    const reads = new NotificationReader({ subjects, journal: { history, newest } } as unknown as Bus, { id_window_ms: 3_600_000 })
    for (const one of junk) expect(await reads.noticesOf(subjects.toFact(one) as Step)).toEqual([])
    expect(read).toBe(1)
  })

  it('reads nothing for a return that the server stored as the first of its journal', async () => {
    const headers = { 'Passover-Attempt': '1', 'Passover-Nonce': 'm' }
    const first = stored(2, subjects.return(KEY, 'scout'), { headers, body: { v: 1 } })
    const reads = new NotificationReader({ subjects, journal: {} } as unknown as Bus, { id_window_ms: 3_600_000 })
    expect(await reads.judged(subjects.toFact(first) as Step)).toBe('nothing')
  })
})
