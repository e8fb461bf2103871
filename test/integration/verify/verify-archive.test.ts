import { encodeFrame, type InMemorySegment, type RemovedSegment } from '@passover/archive'
import { decode, encode, readHeaders } from '@passover/bus'
import { verifyArchive } from '@passover/cli'
import { modificationsIn } from '@passover/core'
import { HEADER, type Part, type PassKey, sha256 } from '@passover/schemas'
import { beforeAll, describe, expect, it } from 'vitest'
import { verdictText } from '../../../packages/cli/src/verify/run.js'
import { erase, randomOf, sourceOf, tamper } from '../../support/attacks/tampered-archive.js'
import { type BegunPass, RecordedStream } from '../../support/builders/recorded-stream.js'
import { openRecording, recordPass } from '../../support/builders/recording.js'
import { sealAll } from '../../support/builders/seal-all.js'

const RULES = { id_window_ms: 3_600_000 }
const CHAIN = { ...RULES, rules: 'chain only' as const }
const ENTRIES = 10_000
const DAY_MS = 86_400_000
/** All of them: TAMPERS=1000. */
const TAMPERS_MADE = Number(process.env.TAMPERS ?? 60)
/** Each reads a segment of 4,096 entries anew. */
const DEADLINE_MS = 60_000 + TAMPERS_MADE * 500

let stream: RecordedStream
let segments: InMemorySegment[]

beforeAll(async () => {
  stream = openRecording()
  for (let n = 0; stream.events.length < ENTRIES; n++) recordPass(stream, n)
  segments = await sealAll(stream.events.slice(0, ENTRIES))
})

describe('verifyArchive', () => {
  it('finds nothing wrong with what honest services stored, and says what it checked', async () => {
    const { shown, remarked, counts, ok, head } = await verifyArchive(sourceOf(segments), RULES)
    expect({ shown, remarked, ok }).toEqual({ shown: [], remarked: [], ok: true })
    expect(counts.messages).toBe(ENTRIES)
    expect(counts.recomputed + counts.as_recorded).toBe(counts.passes)
    expect(counts.passes).toBeGreaterThan(2_500)
    expect(head).toEqual({ sequence: ENTRIES, hash: segments.at(-1)?.entry.chain_after })
  })

  it(
    'names every entry that was changed, dropped, swapped, doubled or cut off',
    async () => {
      const missed: unknown[] = []
      for (let seed = 1; seed <= TAMPERS_MADE; seed++) {
        const { segments: touched, kind, sequences } = tamper(segments, randomOf(seed), seed % 2 ? 'left' : 'rewritten')
        // The one segment is looked at alone: the others are what they were.
        const at = touched.findIndex((segment, k) => segment !== segments[k])
        const { first } = await verifyArchive(sourceOf(touched.slice(at, at + 1)), CHAIN)
        if (first?.sequence === undefined || !sequences.includes(first.sequence)) missed.push({ seed, kind, sequences, first })
      }
      expect(missed).toEqual([])
    },
    DEADLINE_MS,
  )

  it('says of a policy that only a dispatcher knew that it cannot be verified', async () => {
    const own = new RecordedStream()
    for (const name of ['alice', 'audit', 'closed']) own.agent(name)
    own.decideBy({
      subagents: { audit: { hold_before_dispatch: true } },
      pairs: { 'alice->closed': { enabled: false, reason: 'no' } },
    } as never)
    for (const subagent of ['audit', 'closed']) own.begin(own.ask({ key: { originator: 'alice', subagent, id: `pass-of-${subagent}` } }))
    const { shown } = await verifyArchive(sourceOf(await sealAll(own.events)), RULES)
    const what = expect.stringMatching(/the defaults: no policy was published, and a policy from PASSOVER_POLICY cannot be verified/)
    expect(shown).toMatchObject([
      { rule: 'policy', what },
      { rule: 'policy', what },
    ])
  })

  it('goes through a segment that retention removed, and names one that was removed too early or whose remains are not what was kept', async () => {
    const now = { ...RULES, now: (stream.events.at(-1)?.time ?? 0) + 100 * DAY_MS }
    const [one, ...rest] = segments as [InMemorySegment, ...InMemorySegment[]]
    const source = (removed: Partial<RemovedSegment>, after = rest) => {
      const entry = {
        ...one.entry,
        removed: { why: 'retention' as const, at: one.entry.last_time + 30 * DAY_MS, retention_days: 30, ...removed },
      }
      const others = sourceOf(after)
      const object = async (name: string) => (name === 'versions' ? versions : await others.object(name))
      return { object, entries: async () => [entry, ...(await others.entries())] }
    }
    const stay = stream.events.filter(({ sequence, subject }) => sequence <= one.entry.last && /^(policy|agent)\./.test(subject))
    const versions = Buffer.concat(stay.map((event) => encodeFrame(event).bytes))
    const kept = { object: 'versions', sha256: sha256(versions) }
    const whole = await verifyArchive(source({ kept }), now)
    expect(whole).toMatchObject({ ok: true, shown: [], removed: { segments: 1, up_to: one.entry.last_time }, head: { sequence: ENTRIES } })
    const early = await verifyArchive(source({ kept, at: one.entry.last_time + 30 * DAY_MS - 1_000 }, []), now)
    expect(early.first).toMatchObject({
      segment: 0,
      what: expect.stringContaining('was removed before its recorded retention of 30 days was over'),
    })
    // Whoever writes the entry says what fits: the policy says otherwise.
    const invented = await verifyArchive(source({ kept, at: one.entry.last_time + DAY_MS, retention_days: 1 }, []), now)
    expect(invented.shown).toEqual([
      {
        segment: 0,
        rule: 'retention',
        what: 'was removed when its newest message was 1 days old: policy version 1, in force at that time, keeps 30 days',
      },
    ])
    const at = one.entry.last_time + 200 * DAY_MS
    expect((await verifyArchive(source({ kept, at }, []), now)).first?.what).toMatch(/^records its removal on .* which is in the future$/)
    const empty = { ...source({ kept }, []), entries: async () => [{ ...(await source({ kept }).entries())[0], count: 0 } as never] }
    expect((await verifyArchive(empty, now)).shown).toContainEqual(
      expect.objectContaining({
        segment: 0,
        what: 'is recorded as empty at its removal, but its chain value is not that of an empty segment',
      }),
    )
    const lost = await verifyArchive(source({ kept: { object: 'nowhere', sha256: 'f'.repeat(64) } }, []), now)
    expect(lost.first).toMatchObject({ segment: 0, what: expect.stringContaining('the messages kept from it (nowhere) are missing') })
  })

  it('names a segment that is missing, moved, or does not continue the chain', async () => {
    const [one, two, three] = segments as [InMemorySegment, InMemorySegment, InMemorySegment]
    const missing = await verifyArchive(sourceOf([one, three]), CHAIN)
    expect(missing.shown[0]).toMatchObject({ segment: 2, what: expect.stringContaining('segment 1 is missing') })
    const forked = { ...two, entry: { ...two.entry, chain_before: 'f'.repeat(64) } }
    const broken = await verifyArchive(sourceOf([one, forked, three]), CHAIN)
    expect(broken.first).toMatchObject({ segment: 1, what: expect.stringContaining('does not continue the chain') })
    const gone = await verifyArchive({ ...sourceOf(segments), object: async () => undefined }, CHAIN)
    expect(gone.first?.what).toContain('is missing')
  })
})

describe('an archive that holds less than was stored', () => {
  it('is judged by what is left where passes were erased, and says how much was', async () => {
    const few = await sealAll(stream.events.slice(0, 200))
    for (let n = 0; n < 20; n++) {
      const id = `pass-${String(n).padStart(12, '0')}`
      const isOf = ({ subject, headers }: { subject: string; headers: string }) =>
        subject.includes(`.${id}.`) || readHeaders(headers).get(HEADER.id) === id
      const erased = stream.events.filter(isOf).length
      const { shown, counts } = await verifyArchive(sourceOf(erase(few, isOf)), RULES)
      // Nobody recorded that: each is named. Nothing else is wrong.
      const unsaid = shown.filter(({ rule }) => rule === 'erasure')
      expect({ n, rest: shown.length - unsaid.length, erased: counts.erased }).toEqual({ n, rest: 0, erased })
      expect(unsaid.length).toBe(erased)
      expect(erased).toBeGreaterThan(1)
    }
  })

  it('names an erased entry that is not the one that was sealed', async () => {
    const forged = erase(segments.slice(0, 1), ({ sequence }) => sequence === 20).map((segment) => {
      const object = Buffer.from(segment.object)
      const at = object.indexOf(encodeFrame(stream.events[19] as never).digest)
      object[at] = (object[at] ?? 0) ^ 1
      return { ...segment, object }
    })
    expect((await verifyArchive(sourceOf(forged), CHAIN)).first).toMatchObject({
      sequence: 20,
      what: expect.stringContaining('was changed'),
    })
  })

  it('is judged from a sequence on without what lies before it, and says where it begins', async () => {
    for (const from of [4_096, 8_192]) {
      const { shown, counts } = await verifyArchive(sourceOf(segments), { ...RULES, from })
      expect({ shown, messages: counts.messages }).toEqual({ shown: [], messages: ENTRIES + 1 - from })
    }
    expect((await verifyArchive(sourceOf(segments), CHAIN)).begins).toBeUndefined()
    expect((await verifyArchive(sourceOf(segments.slice(1)), CHAIN)).begins).toEqual({ k: 1, chain: segments[0]?.entry.chain_after })
    // Made anew without its beginning, it looks like one that begins with nothing before it.
    const cut = await sealAll(stream.events.slice(4_095, ENTRIES))
    expect((await verifyArchive(sourceOf(cut), CHAIN)).begins).toMatchObject({ k: 1 })
  })
})

/** Somebody who seals anew what was changed: manifest, index and chain all fit. */
async function forged(change: (events: typeof stream.events) => typeof stream.events) {
  return verifyArchive(sourceOf(await sealAll(change(stream.events.slice(0, 2_000)))), RULES)
}

const bySubject = (head: string, nth = 0) => {
  const found = stream.events.filter(({ subject }) => subject.startsWith(`${head}.`))[nth]
  if (!found) throw new Error(`no ${head}`)
  return found
}

function edited(sequence: number, edit: (body: Record<string, object>) => unknown) {
  return (events: typeof stream.events) =>
    events.map((event) => {
      if (event.sequence !== sequence) return event
      const decoded = decode(event.data)
      return { ...event, data: encode(edit(decoded.ok ? (decoded.value as never) : ({} as never))) }
    })
}

describe('an archive whose chain was made anew', () => {
  it('is met by a chain value that was kept', async () => {
    const honest = await verifyArchive(sourceOf(segments), CHAIN)
    const expected = { ...CHAIN, expect: segments[0]?.entry.chain_after }
    expect((await verifyArchive(sourceOf(segments), expected)).ok).toBe(true)
    // The segment that was open when a value was told has more entries by now.
    const before = await verifyArchive(sourceOf(await sealAll(stream.events.slice(0, ENTRIES - 1_000))), CHAIN)
    expect((await verifyArchive(sourceOf(segments), { ...CHAIN, expect: before.head?.hash })).ok).toBe(true)
    const late = stream.events.slice(0, ENTRIES - 1)
    const cut = await verifyArchive(sourceOf(await sealAll(late)), { ...CHAIN, expect: honest.head?.hash })
    expect(cut.first).toMatchObject({ rule: 'chain', what: expect.stringContaining('does not contain') })
  })

  it('is found out by the guards where a step was taken out', async () => {
    const work = bySubject('work', 0)
    const { first } = await forged((events) => events.filter((event) => event !== work))
    expect(first?.what).toBe(`comes after step ${work.sequence} of its pass, which is missing`)
    const request = bySubject('request', 5)
    const asked = await forged((events) => events.filter((event) => event !== request))
    expect(asked.first?.what).toBe(`answers request ${request.sequence}, which is missing`)
  })

  it('is found out where a return was taken out, once its deadline is over', async () => {
    const short = openRecording()
    for (let n = 0; n < 3; n++) recordPass(short, n)
    short.wait(120_000)
    recordPass(short, 4)
    const back = short.events.find(({ subject }) => subject.startsWith('return.'))
    const { first } = await verifyArchive(sourceOf(await sealAll(short.events.filter((event) => event !== back))), RULES)
    expect(first).toMatchObject({ rule: 'one_return', what: expect.stringMatching(/has no return \d+ ms after its deadline/) })
  })

  it('is found out by the digest where a request was changed, and by the recorded policy where a control frame was', async () => {
    const request = bySubject('request', 1)
    const asked = await forged(edited(request.sequence, (body) => ({ ...body, request: { ...body.request, reason: 'something else' } })))
    expect(asked.first).toMatchObject({ sequence: expect.any(Number), what: expect.stringMatching(/does not match request|malformed/) })
    const work = bySubject('work', 1)
    const granted = await forged(
      edited(work.sequence, (body) => ({
        ...body,
        control: { ...body.control, rights: { can_modify_files: true, can_run_tools: true, constraints: [] } },
      })),
    )
    expect(granted.first).toMatchObject({
      sequence: work.sequence,
      rule: 'policy',
      what: expect.stringContaining('can_modify_files is true'),
    })
  })

  it('is found out where an approval was taken out, or is about something else', async () => {
    const decision = bySubject('decision')
    const without = await forged((events) => events.filter((event) => event !== decision))
    expect(without.first).toMatchObject({ rule: 'approval', what: 'was dispatched although nobody approved it' })
    const other = await forged(edited(decision.sequence, (body) => ({ ...body, digest: 'e'.repeat(64) })))
    expect(other.first?.what).toContain('is not valid')
  })

  it('is found out where an approval that overlooks a revocation was carried out', async () => {
    const found = async ({ revoked, ...said }: { revoked: 'before' | 'after'; despite_revocation?: true; violated?: true }) => {
      const own = openRecording()
      const revoke = () => own.agent('guarded', undefined, { revoked_at: 1 })
      const pass = own.begin(own.ask({ key: { originator: 'alice', subagent: 'guarded', id: 'pass-of-guarded' } }))
      if (revoked === 'before') revoke()
      const { sequence } = own.decide(pass, { item: 'dispatch', digest: pass.digest, ...said })
      if (revoked === 'after') revoke()
      if (said.violated) own.event(pass, 'violation', 'passover', { sequence, what: 'it does not count' })
      own.return(own.dispatch(pass))
      return (await verifyArchive(sourceOf(await sealAll(own.events)), RULES)).shown
    }
    expect(await found({ revoked: 'before' })).toMatchObject([
      { rule: 'approval', what: expect.stringContaining('an agent of its chain was revoked') },
    ])
    expect(await found({ revoked: 'before', despite_revocation: true })).toEqual([])
    expect(await found({ revoked: 'after' })).toEqual([])
    expect(await found({ revoked: 'after', violated: true })).toMatchObject([{ rule: 'approval' }])
  })

  it('is found out where a refusal, a cancel or the ancestry is not what the rest says', async () => {
    const cancel = stream.events.find(({ subject }) => subject.includes('.cancel.'))
    const uncancelled = await forged((events) => events.filter((event) => event !== cancel))
    expect(uncancelled.first?.what).toContain('nobody cancelled it')
    const refusal = stream.events.find(({ subject }) => subject.startsWith('return.alice.closed'))
    const renamed = await forged(edited(refusal?.sequence ?? 0, (body) => ({ ...body, error: { ...body.error, code: 'E002' } })))
    expect(renamed.first).toMatchObject({ sequence: refusal?.sequence, rule: 'return' })
    const child = stream.events.find(({ subject }) => subject.startsWith('work.audit.helper'))
    const lonely = await forged(
      edited(child?.sequence ?? 0, (body) => ({ ...body, control: { ...body.control, ancestors: ['audit'], chain_depth: 1 } })),
    )
    expect(lonely.shown.some(({ sequence, rule }) => sequence === child?.sequence && (rule === 'ancestry' || rule === 'policy'))).toBe(true)
  })

  it('says of an unacceptable return and of a second one that readers pass them over', async () => {
    const back = bySubject('return', 0)
    const bad = await forged(edited(back.sequence, () => ({ v: 1, output: { nonsense: true } })))
    expect(bad).toMatchObject({
      ok: true,
      remarks: 1,
      remarked: [{ sequence: back.sequence, rule: 'return', what: expect.stringContaining('E021') }],
    })
    expect(encodeFrame(back).digest).toHaveLength(32)
  })
})

describe('messages of an agent that wants to blind `verify`', () => {
  /** A return of mallory that names parts which were never stored. */
  const returned = (own: RecordedStream, key: PassKey, { parts, guard }: { parts: number; guard: [string, number] }) => {
    const named = (n: number): Part => ({ name: `artifact:${n}`, hash: sha256(`${key.id} ${n}`), size: 5, owner: 'mallory' })
    return own.put(own.subjects.return(key, 'mallory'), {
      headers: { [HEADER.attempt]: '1' },
      body: { v: 1, output: { status: 'completed', summary: '', artifacts: [] }, parts: Array.from({ length: parts }, (_, n) => named(n)) },
      guard,
    })
  }
  const start = () => {
    const own = new RecordedStream()
    for (const name of ['alice', 'audit', 'mallory']) own.agent(name)
    own.publishPolicy({})
    return own
  }
  const missing = async () => ({ fault: 'is missing' })
  const keyOf = (originator: string, subagent: string, n: number) => ({ originator, subagent, id: `pass-${String(n).padStart(12, '0')}` })

  it('are remarks, and their parts are not looked for, where readers pass them over', async () => {
    const own = start()
    const nobody = keyOf('nobody', 'mallory', 1)
    returned(own, nobody, { parts: 30, guard: [own.subjects.journal(nobody), 0] })
    // What the guard names is true of other subjects, and says nothing of this pass.
    for (let n = 2; n < 40; n++) returned(own, keyOf('nobody', 'mallory', n), { parts: 1, guard: ['agent.paula', 3] })
    const pass = own.return(own.begin(own.ask({ key: keyOf('alice', 'mallory', 50) })))
    returned(own, pass.key, { parts: 30, guard: [own.subjects.journal(pass.key), pass.last] })
    const { faults, shown, remarks, remarked } = await verifyArchive(sourceOf(await sealAll(own.events)), { ...RULES, parts: missing })
    expect({ faults, shown }).toEqual({ faults: 0, shown: [] })
    expect(remarks).toBe(40)
    expect(remarked.every(({ what }) => what.endsWith('readers ignore it'))).toBe(true)
  })

  it('by which an originator takes back what a person applied are remarks, and those of people, or about its own changes, are none', async () => {
    const own = start()
    const change = { type: 'file_modification', path: 'a.ts', old_content: 'a', new_content: 'b', reason: 'r', confidence: 'high' } as const
    const digests = modificationsIn({ artifacts: [change] }).map(({ digest }) => digest)
    const said = { applied_by: 'paula', applied_at: 1, applied: ['a.ts'], rejected: [], digests }
    const passes = [1, 2, 3].map((n) => own.return(own.begin(own.ask({ key: keyOf('mallory', 'audit', n) })), { artifacts: [change] }))
    const [hidden, honest, automatic] = passes as [BegunPass, BegunPass, BegunPass]
    own.event(hidden, 'applied', 'paula', said)
    const claims = [said, { ...said, digests: undefined }].map((body) => own.event(hidden, 'applied', 'mallory', { ...body, undone: true }))
    own.event(honest, 'applied', 'paula', said)
    own.event(honest, 'applied', 'paula', { ...said, undone: true })
    own.event(honest, 'applied', 'mallory', { ...said, undone: true })
    own.event(automatic, 'applied', 'mallory', said)
    own.event(automatic, 'applied', 'mallory', { ...said, undone: true })
    const { shown, remarked } = await verifyArchive(sourceOf(await sealAll(own.events)), { ...RULES, parts: missing })
    const what = 'mallory reports that changes applied by paula were undone; the record still shows them as applied'
    expect(remarked.filter(({ rule }) => rule === 'approval')).toEqual(
      claims.map(({ sequence }) => expect.objectContaining({ sequence, what })),
    )
    expect(shown.filter(({ sequence }) => claims.some((claim) => claim.sequence === sequence))).toEqual([])
  })

  it('take no place of other faults, and parts that one agent lacks are told as one', async () => {
    const own = start()
    const change = { type: 'file_modification', path: 'a.ts', old_content: 'a', new_content: 'b', reason: 'r', confidence: 'high' } as const
    for (let n = 0; n < 30; n++) {
      const { key, last } = own.begin(own.ask({ key: keyOf('alice', 'mallory', n) }))
      returned(own, key, { parts: n === 0 ? 1_000 : 1, guard: [own.subjects.journal(key), last] })
      const mine = own.return(own.begin(own.ask({ key: keyOf('mallory', 'audit', n) })), { artifacts: [change] })
      own.event(mine, 'applied', 'mallory', { applied_by: 'paula', applied_at: 1, applied: ['a.ts'], rejected: [], digests: ['d'] })
    }
    const honest = own.return(own.begin(own.ask({ key: keyOf('alice', 'audit', 99) })), { artifacts: [change] })
    const forged = own.event(honest, 'applied', 'alice', {
      applied_by: 'paula',
      applied_at: 1,
      applied: ['a.ts'],
      rejected: [],
      digests: ['d'],
    })
    const segments = (await sealAll(own.events)).map((segment) => ({ ...segment, entry: { ...segment.entry, raw_size: 1 } }))
    const verdict = await verifyArchive(sourceOf(segments), { ...RULES, parts: missing, expect: 'ab'.repeat(32) })
    const { first, faults, shown } = verdict
    expect(first).toMatchObject({ rule: 'chain', segment: 0 })
    expect(faults).toBe(2 + 1_029 + 31)
    expect(shown.filter(({ rule }) => rule === 'chain').map(({ what }) => what)).toEqual([
      expect.stringContaining('its manifest entry has 1'),
      expect.stringContaining(`does not contain ${'ab'.repeat(32)}`),
    ])
    expect(shown.filter(({ rule }) => rule === 'parts')).toEqual([
      expect.objectContaining({
        count: 1_029,
        what: '1029 parts of mallory are missing (never stored by mallory, or lost since)',
        examples: expect.arrayContaining([expect.any(String)]),
      }),
    ])
    expect(shown.filter(({ rule }) => rule === 'approval').map(({ sequence }) => sequence)).toContain(forged.sequence)
    const text = verdictText(verdict)
    expect(text).toContain(`sequence ${forged.sequence} (alice/audit/`)
    expect(text).toContain(`does not contain ${'ab'.repeat(32)}`)
    expect(text).toContain('1029 parts of mallory are missing (never stored by mallory, or lost since), such as "artifact:0" in sequence')
  })
})
