import type { Part, WorkContext, WorkOutput } from '@passover/schemas'
import { canonicalJson, PART_INLINE_BYTES, sha256 } from '@passover/schemas'

/** A part whose bytes are here. */
export interface LoadedPart {
  name: string
  data: Uint8Array
}

/** What was put together again, or why that cannot be done (whoever made the parts is at fault). */
export type Joined<T> = { ok: true; value: T } | { ok: false; error: string }

const FILE = 'file:'
const ARTIFACT = 'artifact:'
const TEXT = new TextDecoder('utf-8', { fatal: true })
/** A file's mark of its byte order is part of its content. */
const CONTENT_TEXT = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

type Json = Record<string, unknown>

function partOf(name: string, data: Uint8Array): Part {
  return { name, hash: sha256(data), size: data.length, data: data as Uint8Array<ArrayBuffer> }
}

function jsonPart(name: string, value: unknown): Part {
  return partOf(name, utf8(canonicalJson(value)))
}

/** By way of node's pool: memory of its own costs a small part more than its bytes. */
function utf8(text: string): Uint8Array {
  const bytes = Buffer.from(text)
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length)
}

function jsonOf(data: Uint8Array): unknown {
  return JSON.parse(TEXT.decode(data))
}

/**
 * Cuts a context into parts that can be dropped or forwarded without decoding: `context` (everything else), `messages`,
 * `tool_results`, and each file's content (spec 0 §2.2, DESIGN §2 Payloads). Throws on what RFC 8785 cannot say.
 */
export function splitContext(context: WorkContext): { parts: Part[] } {
  const { messages, tool_results, files } = context
  const parts = [jsonPart('context', without(context, APART, { files: files.map(entryOf) }))]
  if (messages.length > 0) parts.push(jsonPart('messages', messages))
  if (tool_results) parts.push(jsonPart('tool_results', tool_results))
  for (const { path, content } of files) {
    if (typeof content === 'string') parts.push(partOf(FILE + path, utf8(content)))
  }
  return { parts }
}

/** Puts a context together from the parts that are there: what was dropped is absent, messages are then none. Its form is not checked. */
export function joinContext(parts: LoadedPart[]): Joined<WorkContext> {
  const named = groupByName(parts)
  const take = (name: string) => named.get(name)?.shift()?.data
  const context = take('context')
  if (!context) return { ok: false, error: 'the part "context" is missing' }
  try {
    const rest = jsonOf(context) as Json
    const messages = take('messages')
    const toolResults = take('tool_results')
    const files = Array.isArray(rest.files) ? (rest.files as Json[]) : []
    const filled = files.map((file) => {
      const content = 'content' in file ? undefined : take(FILE + String(file.path))
      return content ? { ...file, content: CONTENT_TEXT.decode(content) } : file
    })
    const joined = {
      ...rest,
      files: filled,
      messages: messages ? jsonOf(messages) : [],
      ...(toolResults ? { tool_results: jsonOf(toolResults) } : {}),
    }
    return { ok: true, value: joined as unknown as WorkContext }
  } catch (error) {
    return { ok: false, error: error instanceof Error ? error.message : String(error) }
  }
}

const APART = new Set(['messages', 'tool_results', 'files'])
const CONTENT = new Set(['content'])
const ARTIFACTS = new Set(['artifacts'])

function entryOf(file: WorkContext['files'][number]): Json {
  return without(file, CONTENT, file.content === null ? { content: null } : {})
}

/** Assigned: rest patterns and leading spreads cost several µs and make what follows slower. */
function without(from: object, left_out: ReadonlySet<string>, into: Json): Json {
  for (const name in from) if (!left_out.has(name)) into[name] = (from as Json)[name]
  return into
}

function groupByName(parts: LoadedPart[]): Map<string, LoadedPart[]> {
  const named = new Map<string, LoadedPart[]>()
  for (const part of parts) {
    const same = named.get(part.name)
    if (same) same.push(part)
    else named.set(part.name, [part])
  }
  return named
}

/**
 * Takes artifacts over 256 KiB out of an output; `{ part: "artifact:<n>", kind }` stands in their place (of a finding also its
 * `severity`), so that who does not fetch them knows what a person may have to decide about.
 */
export function splitOutput(output: WorkOutput): { output: Json; parts: Part[] } {
  const parts: Part[] = []
  if (output.artifacts.length === 0) return { output: output as unknown as Json, parts }
  const artifacts = output.artifacts.map((artifact, index): unknown => {
    const part = jsonPart(ARTIFACT + index, artifact)
    if (part.size <= PART_INLINE_BYTES) return artifact
    parts.push(part)
    return artifact.type === 'finding'
      ? { part: part.name, kind: artifact.type, severity: artifact.severity }
      : { part: part.name, kind: artifact.type }
  })
  return { output: without(output, ARTIFACTS, { artifacts }), parts }
}

/** Puts the artifacts back. The output's form is not checked. */
export function joinOutput(output: Json, parts: LoadedPart[]): Joined<Json> {
  const artifacts = output.artifacts
  if (!Array.isArray(artifacts)) return { ok: true, value: output }
  const named = new Map(parts.map((part) => [part.name, part.data]))
  try {
    const joined = artifacts.map((artifact: unknown) => {
      const name = partName(artifact)
      if (name === undefined) return artifact
      const data = named.get(name)
      if (!data) throw new Error(`the part "${name}" is missing`)
      return jsonOf(data)
    })
    return { ok: true, value: { ...output, artifacts: joined } }
  } catch (error) {
    return { ok: false, error: error instanceof Error ? error.message : String(error) }
  }
}

function partName(artifact: unknown): string | undefined {
  if (typeof artifact !== 'object' || artifact === null) return undefined
  const { part, type } = artifact as { part?: unknown; type?: unknown }
  return type === undefined && typeof part === 'string' && part.startsWith(ARTIFACT) ? part : undefined
}
