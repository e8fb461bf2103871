import { decode, type StoredMessage } from '@passover/bus'
import { ChurnMap } from '@passover/core'
import { HEADER, keyText, type PassKey, type RequestFact } from '@passover/schemas'
import type { RequestNote } from './pass-memory.js'

/** Maximum bytes of request bodies in memory, kept for the records of refusals. Bodies beyond it are read from the stream again. */
const MAX_BODY_BYTES = 8 * 1024 * 1024
const MAX_KEPT_BODY = 16 * 1024
/** Same pattern as `passId`. */
const PASS_ID = /^(?!bad-)[A-Za-z0-9_-]{9,64}$/

/** Requests that no step has answered yet, in the order in which they were stored. */
export class UnansweredRequests {
  readonly #changed: (text: string) => void
  readonly #notes = new ChurnMap<number, RequestNote>()
  readonly #byKey = new ChurnMap<string, RequestNote>()
  #bytes = 0

  /** `changed` is called with the keyText of the requested pass after a request was added or removed. */
  constructor(changed: (text: string) => void = () => undefined) {
    this.#changed = changed
  }

  get size(): number {
    return this.#notes.size
  }

  add(stored: StoredMessage, fact: RequestFact): void {
    const { length } = stored.data
    const keeps = length <= MAX_KEPT_BODY && this.#bytes + length <= MAX_BODY_BYTES
    const note = noteOf(stored, fact)
    note.body = keeps ? Buffer.from(stored.data) : undefined
    if (keeps) this.#bytes += length
    this.#notes.set(stored.sequence, note)
    const key = noteKey(note)
    if (!key) return
    const text = keyText(key)
    if (this.#byKey.has(text)) return
    this.#byKey.set(text, note)
    this.#changed(text)
  }

  /** Removes a request and returns it. */
  take(sequence: number): RequestNote | undefined {
    const note = this.#notes.take(sequence)
    if (!note) return undefined
    this.#bytes -= note.body?.length ?? 0
    const key = noteKey(note)
    const text = key && keyText(key)
    if (text !== undefined && this.#byKey.get(text) === note) {
      this.#byKey.delete(text)
      this.#changed(text)
    }
    return note
  }

  get(sequence: number): RequestNote | undefined {
    return this.#notes.get(sequence)
  }

  find(text: string): RequestNote | undefined {
    return this.#byKey.get(text)
  }

  values(): Iterable<RequestNote> {
    return this.#notes.values()
  }

  /** Returns the request that has waited longest. */
  first(): RequestNote | undefined {
    return this.#notes.first()
  }
}

/** Returns the key of the pass that a request asks for, or `undefined` if the request has no valid id. */
export function noteKey(note: RequestNote): PassKey | undefined {
  return note.id === undefined ? undefined : { originator: note.originator, subagent: note.subagent, id: note.id }
}

/** Creates the note of a request, including its body. */
export function noteOf(stored: StoredMessage, fact: RequestFact): RequestNote {
  const { originator, subagent, sequence, time } = fact
  const content_type = stored.headers.get(HEADER.contentType)
  const id = requestId(stored, fact)
  return { originator, subagent, sequence, time, id, body: stored.data, content_type }
}

/** Returns the id that a request asks for: from its header or, for a request from a shell, from its body. */
export function requestId(stored: StoredMessage, fact: RequestFact): string | undefined {
  return validId(fact.id) ?? validId(idInside(stored.data, stored.headers.get(HEADER.contentType)))
}

function validId(id: unknown): string | undefined {
  return typeof id === 'string' && PASS_ID.test(id) ? id : undefined
}

/** Reads the id from a body. Needed for requests from a shell, which have no headers: a plain PassOverRequest or an envelope. */
function idInside(data: Uint8Array, content_type: string | undefined): unknown {
  const decoded = decode(data, content_type)
  if (!decoded.ok || typeof decoded.value !== 'object' || decoded.value === null) return undefined
  const body = decoded.value as { id?: unknown; request?: { id?: unknown } | null }
  return body.id ?? body.request?.id
}
