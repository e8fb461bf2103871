import { connect, headers } from '@nats-io/transport-node'
import { Manifest } from '@passover/archive'
import { type Bus, loadParts, PartError, type Table } from '@passover/bus'
import { PART_INLINE_BYTES, type Part, sha256 } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { byHand } from '../../support/attacks/broken-topology.js'
import { rawMessages } from '../../support/builders/raw-archive.js'
import { busOn } from '../../support/fixtures/bus.js'
import { until, within } from '../../support/processes/until.js'
import { type NatsFixture, natsFixture } from '../../support/servers/nats.js'

const record = z.object({ name: z.string(), n: z.number() })
type Record = z.infer<typeof record>

describe('stores', () => {
  let nats: NatsFixture
  let bus: Awaited<ReturnType<typeof busOn>>
  let table: Table<Record>
  beforeAll(async () => {
    nats = await natsFixture()
    bus = await busOn(nats)
    await bus.ensureTopology()
    await bus.ensureAgent('alice', { subagent: false, max_attempts: 3, lease_ms: 5_000 })
    table = await bus.table('agents', record)
  })
  afterAll(async () => {
    await bus[Symbol.asyncDispose]()
    await nats[Symbol.asyncDispose]()
  })

  describe('a table', () => {
    test('gets, puts, creates, updates by comparing, and deletes', async () => {
      expect(await table.get('k1')).toBeUndefined()
      const first = await table.create('k1', { name: 'a', n: 1 })
      expect(first).toBeTypeOf('number')
      expect(await table.create('k1', { name: 'b', n: 2 })).toBeUndefined()
      expect(await table.get('k1')).toMatchObject({ key: 'k1', value: { name: 'a', n: 1 }, revision: first, time: expect.any(Number) })
      const rivals = await Promise.all([3, 4, 5].map((n) => table.update('k1', { name: 'c', n }, first ?? 0)))
      expect(rivals.filter((one) => one !== undefined)).toHaveLength(1)
      const put = await table.put('k1', { name: 'd', n: 6 })
      expect(await table.update('k1', { name: 'e', n: 7 }, put)).toBeTypeOf('number')
      await table.delete('k1')
      expect(await table.get('k1')).toBeUndefined()
      expect(await table.create('k1', { name: 'f', n: 8 })).toBeTypeOf('number')
      expect((await table.get('k1'))?.value.n).toBe(8)
    })

    // Fails where a bucket that forbids deletions is taken for one that has nothing to delete.
    test.each(['agents', 'passes', 'inbox'])('of %s is erased without a mark, but for what was put since', async (bucket) => {
      const erasable = await bus.table(bucket, record)
      const messages = async () => (await bus.inspect()).buckets.find(({ name, kind }) => name === bucket && kind === 'kv')?.messages
      const before = await messages()
      await erasable.put('gone', { name: 'a', n: 1 })
      expect(await erasable.erase('gone')).toBe(bucket !== 'agents')
      expect(await messages()).toBe(before)
      expect(await erasable.get('gone')).toBeUndefined()
      expect(await erasable.erase('gone')).toBe(true)
    })

    test('refuses keys that are none, and leaves out values that its schema refuses', async () => {
      for (const key of ['', 'a b', 'a.*', '>', '.a', 'a..b', 'x'.repeat(600)]) await expect(table.get(key), key).rejects.toThrow(TypeError)
      const other = await bus.table('agents', z.unknown())
      await other.put('odd', { name: 7 })
      expect(await table.get('odd')).toBeUndefined()
      expect(String(bus.errors.at(-1))).toMatch(
        /^BusReadError: the entry odd \(revision \d+\) of the bucket agents is ignored: name: must be text, not a number; n: is missing: a number is needed\. docs\/operations\/backup-and-recovery\.md describes how to restore it$/,
      )
      await other.delete('odd')
    })

    test.each([
      ['an entry of a segment', 'segment.0000000003', { v: 1, k: 'three' }, 'k: must be a number, not text'],
      ['the newest segment', 'head', { v: 1, head: 'three' }, 'head: must be a number, not text'],
      ['another kind of value', 'head', 'three', 'the entry: must be an object, not text'],
    ])('says of a damaged manifest what, where, and what to do: %s', async (_, key, value, why) => {
      const raw = await bus.table('archive', z.unknown())
      await raw.put(key, value)
      const manifest = await Manifest.open(bus)
      expect(await manifest.newest()).toBeUndefined()
      const told = bus.errors.map(String).filter((text) => text.includes(why))
      expect(told[0]).toMatch(/^BusReadError: the entry \S+ \(revision \d+\) of the bucket archive is ignored: /)
      expect(told[0]).toContain(key)
      expect(told[0]).toMatch(/\. Restore the buckets KV_archive and OBJ_archive from one backup$/)
      expect(bus.errors.map(String).join('')).not.toMatch(/"code"|Invalid input/)
      await raw.delete(key)
    })

    test('lists by filter, and the last writes', async () => {
      const passes = await bus.table('passes', record)
      await Promise.all(Array.from({ length: 600 }, (_, n) => passes.put(`2026-11.s${n % 2}.p${n}`, { name: 'x', n })))
      const all = []
      for await (const entry of passes.entries()) all.push(entry.value.n)
      expect(all.sort((a, b) => a - b)).toEqual(Array.from({ length: 600 }, (_, n) => n))
      const some = []
      for await (const entry of passes.entries('2026-11.s1.*')) some.push(entry.value.n)
      expect(some).toHaveLength(300)
      await passes.put('2026-11.s0.p0', { name: 'again', n: 0 })
      const newest = []
      for await (const entry of passes.newest(10)) newest.push(entry)
      expect(newest).toHaveLength(10)
      expect(newest.at(-1)).toMatchObject({ key: '2026-11.s0.p0', value: { name: 'again' } })
      for await (const _ of passes.entries('none.>')) throw new Error('nothing is there')
    })

    test('is one that every NATS client understands', async () => {
      await table.put('shared', { name: 'ours', n: 1 })
      const nc = await connect({ servers: nats.servers })
      const got = await nc.request('$JS.API.DIRECT.GET.KV_agents.$KV.agents.shared')
      expect(got.headers?.last('Nats-Subject')).toBe('$KV.agents.shared')
      nc.publish('$KV.agents.shared', JSON.stringify({ name: 'theirs', n: 2 }))
      await until(async () => (await table.get('shared'))?.value.name === 'theirs', { what: 'their JSON is read' })
      await nc.close()
    })

    test('watched tells what is there, then every change, and soon after a restart too', async () => {
      const policy = await bus.table('policy', record)
      await policy.put('a', { name: 'a', n: 1 })
      await policy.put('b', { name: 'b', n: 1 })
      const seen: [string, number | undefined][] = []
      const watch = await policy.watch((key, value) => void seen.push([key, value?.n]))
      await within(watch.ready, 'the present ones came')
      expect(seen).toEqual([
        ['a', 1],
        ['b', 1],
      ])
      await policy.put('a', { name: 'a', n: 2 })
      await policy.delete('b')
      await until(() => seen.length === 4, { what: 'the changes came' })
      await nats.node.kill()
      await nats.node.restart()
      const other = await busOn(nats, { identity: 'other' })
      const elsewhere = await other.table('policy', record)
      await elsewhere.put('a', { name: 'a', n: 3 })
      await until(() => seen.length === 5, { what: 'the change after the restart came', deadline_ms: 15_000 })
      expect(seen.slice(2)).toEqual([
        ['a', 2],
        ['b', undefined],
        ['a', 3],
      ])
      await watch[Symbol.asyncDispose]()
      await elsewhere.put('a', { name: 'a', n: 4 })
      expect(seen).toHaveLength(5)
      await other[Symbol.asyncDispose]()
    })

    test('watched while it is empty is ready at once', async () => {
      await using watch = await (await bus.table('presence', record)).watch(() => undefined)
      await within(watch.ready, 'ready')
    })
  })

  test('objects are kept whole, listed, described, replaced and deleted', async () => {
    const objects = await bus.objects('snapshots')
    const data = new Uint8Array(700_000).map((_, i) => i % 251)
    expect(await objects.get('none')).toBeUndefined()
    await objects.put('s1', data, { sequence: '7' })
    await objects.put('empty', new Uint8Array(0))
    expect(Buffer.from((await objects.get('s1')) ?? []).equals(data)).toBe(true)
    expect(await objects.get('empty')).toHaveLength(0)
    expect(await objects.info('s1')).toEqual({ size: 700_000, meta: { sequence: '7' } })
    await objects.put('s1', new Uint8Array([1]))
    expect([...((await objects.get('s1')) ?? [])]).toEqual([1])
    expect((await objects.list()).sort()).toEqual(['empty', 's1'])
    await objects.delete('s1')
    expect(await objects.get('s1')).toBeUndefined()
    expect(await objects.info('s1')).toBeUndefined()
  })

  // Fails where "it is deleted already" ends it: what its chunks hold would stay for ever.
  test('an object whose deletion was broken off in the middle leaves nothing once it is deleted again', async () => {
    const objects = await bus.objects('archive')
    await objects.put('half', new Uint8Array(300_000))
    const nc = await connect({ servers: nats.servers })
    const subject = `$O.archive.M.${Buffer.from('half').toString('base64')}`
    const meta = (await nc.request('$JS.API.DIRECT.GET.OBJ_archive', JSON.stringify({ last_by_subj: subject }))).json<object>()
    await nc.request(subject, JSON.stringify({ ...meta, deleted: true, size: 0, chunks: 0, digest: '' }))
    const messages = async () => {
      const { state } = (await nc.request('$JS.API.STREAM.INFO.OBJ_archive')).json<{ state: { messages: number } }>()
      return state.messages
    }
    const before = await messages()
    await objects.delete('half')
    // One chunk, and both that described it.
    expect(before - (await messages())).toBe(3)
    expect(await objects.list()).not.toContain('half')
    await nc.close()
  })

  test('objects come in pieces too, and in small chunks where others wait for the same connection', async () => {
    const pieces = Array.from({ length: 70 }, (_, n) => Buffer.alloc(10_000, n))
    const messages = async (name: string) =>
      (await bus.inspect()).buckets.find((one) => one.name === name && one.kind === 'object')?.messages ?? Number.NaN
    for (const [bucket, chunks] of [
      ['snapshots', 6],
      ['archive', 2],
    ] as const) {
      const objects = await bus.objects(bucket)
      const before = await messages(bucket)
      await objects.put('pieces', pieces)
      expect(Buffer.concat(pieces).equals((await objects.get('pieces')) ?? new Uint8Array())).toBe(true)
      expect((await messages(bucket)) - before, bucket).toBe(chunks + 1)
    }
  })

  describe('parts', () => {
    const part = (name: string, size: number, fill = name.length): Part => {
      const data = new Uint8Array(size).fill(fill)
      return { name, hash: sha256(data), size, data }
    }

    /** What a stranger sees who asks for any chunk: direct gets answer wildcards. */
    const newestPart = async () => {
      const nc = await connect({ servers: nats.servers })
      const got = await nc.request('$JS.API.DIRECT.GET.OBJ_parts_alice.$O.parts.alice.C.>')
      await nc.close()
      return { subject: got.headers?.last('Nats-Subject') ?? '', data: got.data }
    }

    test('lie in their bucket so that only who knows their hash can find and read them', async () => {
      const secret = part('file:secret', PART_INLINE_BYTES + 1, 65)
      const [uploaded] = await bus.parts.upload('alice', [secret])
      const seen = await newestPart()
      expect(seen.subject).not.toContain(secret.hash)
      expect(Buffer.from(seen.data).includes('AAAAAAAA')).toBe(false)
      expect(sha256(await bus.parts.fetch(uploaded as Part))).toBe(secret.hash)
    })

    test('of earlier versions are found, and their bucket takes new ones', async () => {
      await bus.ensureAgent('elder', { subagent: false, max_attempts: 3, lease_ms: 5_000 })
      const [stored, later] = [part('file:old', 700_000), part('file:new', 300_000)]
      const [uploaded] = (await bus.parts.upload('elder', [stored])) as [Part]
      const moved = await rawMessages(nats.url, 'OBJ_parts_elder')
      // The bucket and its messages as earlier versions had them.
      await byHand(nats.servers, async ({ streams }) => {
        const { config } = await streams.info('OBJ_parts_elder')
        await streams.delete('OBJ_parts_elder')
        await streams.add({ ...config, subjects: ['$O.parts_elder.C.>', '$O.parts_elder.M.>'] })
      })
      for (const { subject, data } of moved) await bus.publish({ subject: subject.replace('$O.parts.elder.', '$O.parts_elder.'), data })
      expect(moved.length).toBe(3)

      await bus.ensureAgent('elder', { subagent: false, max_attempts: 3, lease_ms: 5_000 })
      await bus.ensureAgent('elder', { subagent: false, max_attempts: 3, lease_ms: 5_000 })
      const [after] = (await bus.parts.upload('elder', [later])) as [Part]
      expect(sha256(await bus.parts.fetch(uploaded))).toBe(stored.hash)
      expect(sha256(await bus.parts.fetch(after))).toBe(later.hash)
      for (const { hash } of [stored, later]) await bus.parts.remove('elder', hash)
      expect(await rawMessages(nats.url, 'OBJ_parts_elder')).toEqual([])
    })

    test('stay in the message while they fit, and the largest go first', async () => {
      const small = [part('context', 10), part('file:a', 1000), part('file:bb', PART_INLINE_BYTES)]
      expect(await bus.parts.upload('alice', small)).toEqual(small)
      const many = [part('a', 200_000), part('bb', 180_000), part('ccc', 190_000), part('dddd', 300_000)]
      const uploaded = await bus.parts.upload('alice', many)
      expect(uploaded.map((one) => one.owner)).toEqual(['alice', undefined, undefined, 'alice'])
      expect(uploaded.map((one) => one.data?.length)).toEqual([undefined, 180_000, 190_000, undefined])
      const loaded = await loadParts(bus.parts, uploaded)
      expect(loaded.map(({ name, data }) => [name, sha256(data)])).toEqual(many.map(({ name, hash }) => [name, hash]))
    })

    test('of many chunks come back whole and are not stored twice', async () => {
      const large = part('file:large', 5_000_001)
      const [uploaded] = await bus.parts.upload('alice', [large])
      const before = (await bus.inspect()).buckets.find(({ name }) => name === 'parts_alice')?.messages
      await bus.parts.upload('alice', [large])
      expect((await bus.inspect()).buckets.find(({ name }) => name === 'parts_alice')?.messages).toBe(before)
      expect(sha256(await bus.parts.fetch(uploaded as Part))).toBe(large.hash)
      await bus.parts.remove('alice', large.hash)
      await expect(bus.parts.fetch(uploaded as Part)).rejects.toMatchObject({ name: 'PartError', reason: 'missing' })
    })

    test('are written once: their owner can neither change nor remove one, and may store the same part again', async () => {
      await bus.ensureAgent('mallory', { subagent: false, max_attempts: 3, lease_ms: 5_000 })
      // A bucket of an earlier version, in which half of a part was stored.
      await byHand(nats.servers, async ({ streams }) => {
        const { config } = await streams.info('OBJ_parts_mallory')
        await streams.update('OBJ_parts_mallory', { ...config, discard_new_per_subject: false, allow_rollup_hdrs: true })
      })
      const large = part('file:once', 1_200_000)
      const [uploaded] = (await bus.parts.upload('mallory', [large])) as [Part]
      const before = await rawMessages(nats.url, 'OBJ_parts_mallory')
      const [, , meta] = before.map(({ subject }) => subject)
      await byHand(nats.servers, async ({ streams }) => {
        await streams.purge('OBJ_parts_mallory', { filter: '$O.parts.mallory.M.>' })
      })
      await bus.ensureAgent('mallory', { subagent: false, max_attempts: 3, lease_ms: 5_000 })
      expect(await bus.parts.upload('mallory', [large])).toEqual([uploaded])
      const nc = await connect({ servers: nats.servers })
      const all = headers()
      for (const how of ['all', 'sub']) {
        all.set('Nats-Rollup', how)
        expect((await nc.request(String(meta), 'x', { headers: all, timeout: 5_000 })).string()).toContain('rollup not permitted')
      }
      for (const { subject } of before) expect((await nc.request(subject, 'x')).string()).toContain('maximum messages per subject exceeded')
      await nc.close()
      expect(sha256(await bus.parts.fetch(uploaded))).toBe(large.hash)
      // Retention and erasure remove it all the same, and then it may be stored anew.
      await bus.parts.remove('mallory', large.hash)
      expect(await rawMessages(nats.url, 'OBJ_parts_mallory')).toEqual([])
      await bus.parts.upload('mallory', [large])
      expect(sha256(await bus.parts.fetch(uploaded))).toBe(large.hash)
    })

    test('that are gone, changed or lie about their size are errors', async () => {
      const large = part('file:x', 300_000)
      const [uploaded] = (await bus.parts.upload('alice', [large])) as [Part]
      await expect(bus.parts.fetch({ ...uploaded, owner: 'nobody' })).rejects.toBeInstanceOf(PartError)
      await expect(bus.parts.fetch({ ...uploaded, size: 5 })).rejects.toBeInstanceOf(PartError)
      await expect(bus.parts.fetch({ ...part('y', 5), hash: large.hash })).rejects.toMatchObject({ reason: 'differs' })
      const changed = await newestPart()
      await byHand(nats.servers, async ({ streams }) => void (await streams.purge('OBJ_parts_alice', { filter: changed.subject })))
      await bus.publish({ subject: changed.subject, data: new Uint8Array(300_000) })
      await expect(bus.parts.fetch(uploaded)).rejects.toMatchObject({ reason: 'differs' })
      await expect(bus.parts.fetch({ name: 'z', hash: large.hash, size: 1 })).rejects.toMatchObject({ reason: 'missing' })
    })
  })

  test('questions are shared by replicas, answered in the form they were asked, and undefined when nobody answers', async () => {
    const alice: Bus = await busOn(nats, { identity: 'alice' })
    expect(await alice.ask({ op: 'x' }, { timeout_ms: 300 })).toBeUndefined()
    const asked: [string, string, unknown][] = []
    const answerer = (name: string) => async (asker: string, question: unknown) => {
      asked.push([name, asker, question])
      if ((question as { op: string }).op === 'throw') throw new Error('cannot')
      return { ok: true, by: name }
    }
    const one = await bus.answer(answerer('one'))
    const two = await bus.answer(answerer('two'))
    const answers = await Promise.all(Array.from({ length: 40 }, () => alice.ask({ op: 'x' })))
    expect(answers.every((answer) => (answer as { ok: boolean }).ok)).toBe(true)
    expect(asked).toHaveLength(40)
    expect(new Set(asked.map(([name]) => name)).size).toBe(2)
    expect(asked[0]).toEqual([expect.any(String), 'alice', { op: 'x' }])
    expect(await alice.ask({ op: 'throw' }, { timeout_ms: 300 })).toBeUndefined()
    const nc = await connect({ servers: nats.servers })
    const json = await nc.request('ask.bob', '{"op":"x"}')
    expect(json.json()).toMatchObject({ ok: true })
    await nc.close()
    const register = await bus.answer(async (agent) => ({ agent }), 'register')
    expect(await alice.ask({}, { service: 'register' })).toEqual({ agent: 'alice' })
    for (const answering of [one, two, register]) await answering.drain()
    expect(await alice.ask({ op: 'x' }, { timeout_ms: 300 })).toBeUndefined()
    await alice[Symbol.asyncDispose]()
  })
})
