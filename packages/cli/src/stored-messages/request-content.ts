import { eventOf } from '@passover/archive'
import { type Bus, PartError } from '@passover/bus'
import type { AnsweredPass, Part, RequestControl } from '@passover/schemas'
import { CliFailure } from '../errors.js'
import { StoredRecord } from './stored-record.js'
import { storedRequestOf } from './stored-requests.js'

/** A part of a request's context. `text` is set if its bytes are UTF-8; otherwise `data`, or why the part was not loaded. */
export interface RequestPart {
  name: string
  size: number
  sha256: string
  text?: string
  data?: Uint8Array
  not_loaded?: string
}

/** A stored request with its whole context. The digest covers every field and the hash of every part. */
export interface RequestContent {
  digest: string
  request: RequestControl
  parts: RequestPart[]
}

/** Maximum total bytes of the parts that are loaded to be shown. */
const MAX_LOADED = 64 * 1024 * 1024
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Reads the request of a pass with its context. The content is verified against the digest that a decision about the start names.
 *
 * @throws CliFailure E041 if the request is no longer stored, cannot be read, or has another digest
 */
export async function readRequestContent(bus: Bus, pass: AnsweredPass): Promise<RequestContent> {
  const stored = await storedRequestOf(bus, pass)
  if (!stored) throw unreadable(pass, 'it is no longer stored')
  const reading = new StoredRecord(eventOf(stored), bus.subjects).reading()
  if (!reading.ok) throw unreadable(pass, reading.error.message)
  const { request, parts, digest } = reading.value
  const expected = pass.due?.item === 'dispatch' ? pass.due.digest : pass.digest
  if (expected !== undefined && expected !== digest) throw unreadable(pass, `its digest is ${digest}, not ${expected}`)
  const loaded: RequestPart[] = []
  let left = MAX_LOADED
  for (const part of parts) {
    const fits = part.size <= left
    if (fits) left -= part.size
    loaded.push(fits ? await load(bus, part) : { ...factsOf(part), not_loaded: `at most ${MAX_LOADED} bytes are loaded` })
  }
  return { digest, request, parts: loaded }
}

async function load(bus: Bus, part: Part): Promise<RequestPart> {
  try {
    const data = await bus.parts.fetch(part)
    return { ...factsOf(part), ...contentOf(data) }
  } catch (error) {
    if (!(error instanceof PartError)) throw error
    return { ...factsOf(part), not_loaded: error.message }
  }
}

function factsOf({ name, size, hash }: Part): RequestPart {
  return { name, size, sha256: hash }
}

function contentOf(data: Uint8Array): Pick<RequestPart, 'text' | 'data'> {
  try {
    return { text: UTF8.decode(data) }
  } catch {
    return { data }
  }
}

function unreadable({ row: { id } }: AnsweredPass, why: string): CliFailure {
  return new CliFailure('E041', `the request of ${id} cannot be shown: ${why}`, { hint: `to see the pass: passover show ${id}` })
}

/** Returns the document for --json. */
export function requestDocument({ row }: AnsweredPass, { digest, request, parts }: RequestContent): object {
  const { id, originator, subagent } = row
  const shown = parts.map(({ data, ...part }) => ({ ...part, ...(data ? { data_base64: Buffer.from(data).toString('base64') } : {}) }))
  return { id, originator, subagent, digest, request, parts: shown }
}
