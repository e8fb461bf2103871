import { type Part, sha256 } from '@passover/schemas'
import { expect, test } from 'vitest'
import { Subjects } from '../subjects/subjects.js'
import type { PublishMessage, PublishResult } from '../wire/messages.js'
import { BucketPartStore } from './part-store.js'

const MIB = 1024 * 1024

function part(n: number, bytes: number): Part {
  const data = new Uint8Array(bytes).fill(n)
  return { name: `file:${n}`, hash: sha256(data), size: bytes, data }
}

/** A store whose server acknowledges a message at the end of the turn in which it came. */
function setUp(
  outcomeOf: (message: PublishMessage) => PublishResult = () => ({ kind: 'stored', sequence: 1 }),
  storedAt: (subject: string) => Uint8Array | undefined = () => undefined,
) {
  const seen = { under_way: 0, most: 0, stored: 0 }
  const publish = async (message: PublishMessage): Promise<PublishResult> => {
    seen.under_way += message.data?.length ?? 0
    seen.most = Math.max(seen.most, seen.under_way)
    await new Promise((later) => setImmediate(later))
    seen.under_way -= message.data?.length ?? 0
    seen.stored += 1
    return outcomeOf(message)
  }
  const direct = async (_: string, subject: string) => {
    const data = storedAt(subject)
    return data && { data }
  }
  const context = { link: { maxPayload: MIB }, api: { direct }, publisher: { publish }, subjects: new Subjects() }
  return { seen, store: new BucketPartStore(context as unknown as ConstructorParameters<typeof BucketPartStore>[0]) }
}

test('has no more than 8 MiB on their way to the server, however many parts are stored at once', async () => {
  const { seen, store } = setUp()
  await Promise.all(Array.from({ length: 20 }, (_, n) => store.upload('alice', [part(n, 2 * MIB)])))
  expect(seen.stored).toBe(20 * 5)
  expect(seen.most).toBeGreaterThan(4 * MIB)
  expect(seen.most).toBeLessThan(8 * MIB + 1_000)
})

test('leaves what is stored of a part as it is where that is the same, and says where it is not', async () => {
  const exists: PublishResult = { kind: 'refused', reason: 'exists', description: 'maximum messages per subject exceeded' }
  const stored = new Map<string, Uint8Array>()
  const first = setUp((message) => {
    stored.set(message.subject, message.data as Uint8Array)
    return { kind: 'stored', sequence: 1 }
  })
  await first.store.upload('alice', [part(1, MIB)])
  const again = (change: (subject: string) => Uint8Array | undefined) => setUp(() => exists, change).store.upload('alice', [part(1, MIB)])
  const chunks = (subject: string) => (subject.includes('.M.') ? undefined : stored.get(subject))
  await expect(again((subject) => (chunks(subject) ? new Uint8Array(9) : undefined))).rejects.toMatchObject({ name: 'PartTakenError' })
  // A replica that is behind says nothing: the upload is tried again.
  await expect(again(chunks)).rejects.toMatchObject({ name: 'BusReadError', reason: 'timeout' })
})

test.each<[string, PublishResult, string]>([
  ['nobody answered', { kind: 'unknown', description: 'timeout' }, 'timeout'],
  ['no stream takes it', { kind: 'refused', reason: 'closed', description: 'no stream' }, 'no_responders'],
  ['it is not permitted', { kind: 'refused', reason: 'permission', description: 'no' }, 'permission'],
  ['the server refuses it', { kind: 'refused', reason: 'other', description: 'no' }, 'refused_by_server'],
])('says why a part was not stored: %s', async (_, outcome, reason) => {
  await expect(setUp(() => outcome).store.upload('alice', [part(1, MIB)])).rejects.toMatchObject({ name: 'BusReadError', reason })
})
