import { type ArchivedEvent, decodeIndex, encodeIndex, type InMemorySegment, type ManifestEntry } from '@passover/archive'
import { decode } from '@passover/bus'
import { verifyArchive } from '@passover/cli'
import { sha256 } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { erase, sourceOf } from '../../support/attacks/tampered-archive.js'
import { openRecording, recordPass } from '../../support/builders/recording.js'
import { sealAll } from '../../support/builders/seal-all.js'

const RULES = { id_window_ms: 3_600_000 }
/** One of each kind of pass that a recording makes. */
const PASSES = [0, 3, 7, 11, 13, 17, 19]
/** Approvals and deadlines of everything are over by then. */
const LATER_MS = 8 * 86_400_000

function recording(): ArchivedEvent[] {
  const stream = openRecording()
  for (const n of PASSES) recordPass(stream, n)
  stream.wait(LATER_MS)
  recordPass(stream, 1)
  return stream.events
}

/** The index no longer says which passes there were. */
function nameless([segment]: readonly InMemorySegment[]): InMemorySegment[] {
  if (!segment) throw new Error('no segment')
  const { k } = segment.entry
  expect(decodeIndex(segment.index).length).toBeGreaterThan(1)
  const decoded = decode(segment.index)
  const { prints } = (decoded.ok ? decoded.value : {}) as { prints: Uint8Array }
  const index = encodeIndex(k, [], { prints })
  return [{ ...segment, index, entry: { ...segment.entry, index_sha256: sha256(index) } }]
}

describe('one erased entry of a pass', () => {
  it('takes nothing from what is left: a decision, a cancel, an end that is not to be seen is not said to be missing', async () => {
    const events = recording()
    const sealed = await sealAll(events)
    for (const event of events) {
      const [kind] = event.subject.split('.')
      // A policy and an agent's record belong to no pass, and leave nothing out.
      if (kind === 'policy' || kind === 'agent') continue
      const one = erase(sealed, ({ sequence }) => sequence === event.sequence)
      for (const [how, segments] of [
        ['named', one],
        ['nameless', nameless(one)],
      ] as const) {
        const { shown, counts } = await verifyArchive(sourceOf(segments), RULES)
        // That nobody recorded it is all.
        const rules = shown.map(({ rule }) => rule)
        expect({ subject: event.subject, how, rules, erased: counts.erased }).toEqual({
          subject: event.subject,
          how,
          rules: ['erasure'],
          erased: 1,
        })
      }
    }
  })

  it('an answer to a malformed request is one of its own: erased, it is not said to be missing; not stored, it is', async () => {
    const stream = openRecording()
    const asked = stream.put(stream.subjects.request('audit', 'alice'), { body: 'nothing that asks' })
    const key = { originator: 'alice', subagent: 'audit', id: stream.subjects.badId(asked.sequence) }
    const pass = { key, sequence: asked.sequence, time: asked.time, digest: sha256(asked.data), last: 0 }
    stream.systemReturn(pass as never, { code: 'E005', message: 'the request cannot be decoded' })
    stream.wait(LATER_MS)
    recordPass(stream, 1)
    const sealed = await sealAll(stream.events)
    const isAnswer = ({ subject }: ArchivedEvent) => subject.includes(key.id)
    const faults = async (segments: InMemorySegment[]) =>
      (await verifyArchive(sourceOf(segments), RULES)).shown.map(({ sequence, rule }) => ({ sequence, rule }))
    expect(await faults(sealed)).toEqual([])
    // That nobody recorded it is all.
    expect(await faults(erase(sealed, isAnswer))).toEqual([{ sequence: asked.sequence + 1, rule: 'erasure' }])
    const lost = await sealAll(stream.events.filter((event) => !isAnswer(event)))
    expect(await faults(lost)).toEqual([{ sequence: asked.sequence, rule: 'one_return' }])
  })

  it('a segment that is written anew, or removed, after it was listed is taken as it stands; one that is lost is missing', async () => {
    const [sealed] = await sealAll(recording())
    if (!sealed) throw new Error('no segment')
    const { entry } = sealed
    const isErased = ({ subject }: ArchivedEvent) => subject.includes('.cancel.')
    const [anew] = erase([{ ...sealed, entry: { ...entry, object: 'anew.frames', index: 'anew.index' } }], isErased)
    const at = entry.last_time + 31 * 86_400_000
    const removed = { ...entry, removed: { why: 'retention' as const, at, retention_days: 30 } }
    const faults = async (next: ManifestEntry) => {
      const objects = sourceOf(anew ? [anew] : [])
      const source = { ...objects, entries: async () => [entry], again: async () => next }
      const { shown, segments } = await verifyArchive(source, { ...RULES, now: at })
      return { segments, what: shown.map(({ rule, what }) => `${rule}: ${what}`) }
    }
    // That nobody recorded it is all.
    expect(await faults(anew?.entry ?? entry)).toEqual({ segments: 1, what: ['erasure: was erased, but no tombstone records it'] })
    expect(await faults(removed)).toEqual({ segments: 0, what: [] })
    expect((await faults(entry)).what).toEqual([`chain: object ${entry.object} is missing`])
  })

  it('excuses no other pass: by the index it is known whose it was', async () => {
    const events = recording()
    const approved = events.find(({ subject }) => subject.startsWith('decision.'))
    const left = await sealAll(events.filter((event) => event !== approved))
    const cancel = erase(left, ({ subject }) => subject.includes('.cancel.'))
    const { shown } = await verifyArchive(sourceOf(cancel), RULES)
    expect(shown.find(({ rule }) => rule !== 'erasure')).toMatchObject({
      rule: 'approval',
      what: 'was dispatched although nobody approved it',
    })
  })
})
