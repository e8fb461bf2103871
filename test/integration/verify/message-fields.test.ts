import { type ArchivedEvent, decodeFrames, encodeErased, encodeFrame } from '@passover/archive'
import { decode, encode, encodeHeaders, readHeaders } from '@passover/bus'
import { verifyArchive } from '@passover/cli'
import { HEADER, sha256 } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { sourceOf } from '../../support/attacks/tampered-archive.js'
import { openRecording, recordPass } from '../../support/builders/recording.js'
import { sealAll } from '../../support/builders/seal-all.js'

const RULES = { id_window_ms: 3_600_000 }
/** One of each kind of pass that a recording makes: plain, approved, refused, with a child, cancelled, applied, tried twice. */
const PASSES = [0, 3, 7, 11, 13, 17, 19]
/** Approvals and deadlines of everything are over by then. */
const LATER_MS = 8 * 86_400_000

/**
 * What nothing else that is stored says: the chain alone covers it. What a worker answered and when it worked, a refusal's words, ids that were drawn, who registered an agent, a policy's
 * reasons; and what every reader takes from elsewhere (a header beside its body, a guard that names another subject).
 */
const AS_RECORDED =
  /^(agent|decision Nats-|decision Passover-|held (Nats-|Passover-)|held\.(v|expires_ms|control\.timeout_ms)$|policy\.(base|document)|request Passover-|request\.session_id$|return (Nats-|Passover-)|return\.(v|brief\.|error\.(message|details))|event |event\.|work (Nats-|Passover-|bytes$)|work\.(v|parts\.|control\.(policy\.base|policy_version|return_id))|fence |fence\.v$)/

type Json = Record<string, unknown>
interface Edit {
  name: string
  event: ArchivedEvent
}

/** Every way to change one thing in a value: another of its kind, of another kind, or gone. */
function* editsOf(value: unknown, path = ''): Generator<{ path: string; value: unknown }> {
  if (typeof value === 'number') for (const other of [value + 1, value + 10_000_000, value - 10_000_000, -1]) yield { path, value: other }
  else if (typeof value === 'string') for (const other of [`${value}x`, 'root', '']) yield { path, value: other }
  else if (typeof value === 'boolean') yield { path, value: !value }
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) {
    yield { path, value: undefined }
    yield { path, value: { nonsense: true } }
    return
  }
  for (const [key, inner] of Object.entries(value)) {
    for (const edit of editsOf(inner, `${path}.${key}`)) {
      const copy = (Array.isArray(value) ? [...value] : { ...value }) as Json
      if (edit.value === undefined) delete copy[key]
      else copy[key] = edit.value
      yield { path: edit.path, value: copy }
    }
  }
}

function* changesOf(event: ArchivedEvent): Generator<Edit> {
  const kind = event.subject.split('.')[0] as string
  const body = decode(event.data)
  if (body.ok) for (const { path, value } of editsOf(body.value)) yield { name: `${kind}${path}`, event: { ...event, data: encode(value) } }
  yield { name: `${kind} bytes`, event: { ...event, data: new Uint8Array([0xc1]) } }
  const headers = readHeaders(event.headers).pairs()
  for (const [at, [name, value]] of headers.entries()) {
    const named = (other: string | undefined): string =>
      encodeHeaders(
        Object.fromEntries(headers.flatMap(([key, same], i) => (i !== at ? [[key, same]] : other === undefined ? [] : [[key, other]]))),
      )
    for (const other of [undefined, `${value}1`, 'E002', '7']) yield { name: `${kind} ${name}`, event: { ...event, headers: named(other) } }
  }
}

function recording() {
  const stream = openRecording()
  for (const n of PASSES) recordPass(stream, n)
  stream.wait(LATER_MS)
  recordPass(stream, 1)
  return stream.events
}

async function judged(events: ArchivedEvent[]) {
  const { shown, remarked } = await verifyArchive(sourceOf(await sealAll(events)), RULES)
  return { shown, remarked }
}

describe('one message of an archive whose chain was made anew', () => {
  it('is found out where one thing in it is another than what the rest says, and ends no verification', async () => {
    const events = recording()
    const honest = await judged(events)
    expect(honest).toEqual({ shown: [], remarked: [] })
    const unseen = new Set<string>()
    let seen = 0
    for (const [at, event] of events.entries()) {
      for (const { name, event: other } of changesOf(event)) {
        const { shown, remarked } = await judged(events.with(at, other))
        if (shown.length + remarked.length > 0) seen++
        else if (!AS_RECORDED.test(name)) unseen.add(name)
      }
    }
    expect([...unseen]).toEqual([])
    expect(seen).toBeGreaterThan(1_000)
  }, 240_000)

  it('may be erased with all of its pass: the rest is no worse for it', async () => {
    const events = recording()
    const [segment] = await sealAll(events)
    if (!segment) throw new Error('no segment')
    const frames = [...decodeFrames(segment.object)]
    const passes = new Set(events.flatMap(({ headers }) => readHeaders(headers).get(HEADER.id) ?? []))
    expect(passes.size).toBe(PASSES.length + 2)
    for (const id of passes) {
      const isGone = ({ subject, headers }: ArchivedEvent) => subject.split('.').includes(id) || readHeaders(headers).get(HEADER.id) === id
      const kept = frames.map((frame) => {
        if (frame.kind === 'erased') throw new Error('nothing is erased yet')
        const { event, digest } = frame
        return isGone(event) ? encodeErased(event.sequence, digest) : encodeFrame(event).bytes
      })
      const object = Buffer.concat(kept)
      const erased = {
        ...segment,
        object,
        entry: { ...segment.entry, sha256: sha256(object), size: object.length, raw_size: object.length },
      }
      const { shown, counts } = await verifyArchive(sourceOf([erased]), RULES)
      expect({ id, shown: shown.filter(({ rule }) => rule !== 'erasure') }).toEqual({ id, shown: [] })
      expect(counts.erased).toBe(events.filter(isGone).length)
    }
  })
})
