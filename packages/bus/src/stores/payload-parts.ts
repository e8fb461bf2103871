import type { Part, WorkArtifact, WorkContext, WorkOutput } from '@passover/schemas'
import { canonicalJson, PART_INLINE_BYTES, PARTS_INLINE_BYTES, prefix, sha256 } from '@passover/schemas'

/** A part whose bytes are here. */
export interface LoadedPart {
  name: string
  data: Uint8Array
}

/** What was put together again, or why that cannot be done (whoever made the parts is at fault). */
export type Joined<T> = { ok: true; value: T } | { ok: false; error: string }

const FILE = 'file:'
const ARTIFACT = 'artifact:'
const OUTPUT_TEXT = 'output'
/** JSON makes at most six bytes of a character: no shorter text is too large by itself. */
const SHORT_TEXT = PART_INLINE_BYTES / 6
/** Of a text that travels apart, so that who does not fetch it can tell what it is about. */
const TEXT_BEGINS = 2_000
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
 * `tool_results`, and each file's content (docs/architecture/protocol.md#payloads). Throws on what RFC 8785 cannot say.
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

/**
 * Puts a context together from the parts that are there: what was dropped is absent, and dropped messages are an empty list. Content that has
 * a part of its own must not be in the part `context`, because policy drops parts by name and approvers see parts by name. The form of the
 * context is not checked otherwise.
 */
export function joinContext(parts: LoadedPart[]): Joined<WorkContext> {
  const take = oneTaker(parts)
  const context = take('context')
  if (!context) return { ok: false, error: 'the part "context" is missing' }
  try {
    const rest = jsonOf(context) as Json
    for (const name of ['messages', 'tool_results']) if (rest[name] !== undefined) throw misplaced(name)
    const messages = take('messages')
    const toolResults = take('tool_results')
    const files = Array.isArray(rest.files) ? (rest.files as Json[]) : []
    const filled = files.map((file) => {
      if (file.content !== undefined && file.content !== null) throw misplaced(`the content of ${String(file.path)}`)
      const content = file.content === null ? undefined : take(FILE + String(file.path))
      return content ? { ...file, content: CONTENT_TEXT.decode(content) } : file
    })
    const joined = {
      ...rest,
      files: filled,
      messages: messages ? jsonOf(messages) : [],
      ...(toolResults ? { tool_results: jsonOf(toolResults) } : {}),
    }
    // Approvers are shown it as a text.
    if (typeof rest.objective !== 'string') throw new Error('the objective is no text')
    return { ok: true, value: joined as unknown as WorkContext }
  } catch (error) {
    return { ok: false, error: error instanceof Error ? error.message : String(error) }
  }
}

function misplaced(what: string): Error {
  return new Error(`${what} stands in the part "context", and belongs in a part of its own`)
}

const APART = new Set(['messages', 'tool_results', 'files'])
const CONTENT = new Set(['content'])
const OUTPUT_APART = new Set(['artifacts', 'output'])

function entryOf(file: WorkContext['files'][number]): Json {
  return without(file, CONTENT, file.content === null ? { content: null } : {})
}

/** Assigned: rest patterns and leading spreads cost several µs and make what follows slower. */
function without(from: object, left_out: ReadonlySet<string>, into: Json): Json {
  for (const name in from) if (!left_out.has(name)) into[name] = (from as Json)[name]
  return into
}

/**
 * Gives each part by its name, once. A context names each file once, and an output each artifact. A body that names one part many times
 * would become many times as large as its bytes: of 1 MB gigabytes.
 *
 * The result throws an Error for a part that was given before, and is undefined for one that does not exist.
 */
function oneTaker(parts: LoadedPart[]): (name: string) => Uint8Array | undefined {
  const named = new Map(parts.map(({ name, data }) => [name, data]))
  const taken = new Set<string>()
  return (name) => {
    const data = named.get(name)
    if (data && taken.has(name)) throw new Error(`the part "${name}" is named in two places`)
    taken.add(name)
    return data
  }
}

/** Something of an output that can travel apart: what it takes up in a message, and its part if it is moved. */
interface Piece {
  size: number
  part: () => Part
  /** What stands in its place. */
  reference: Json
}

/**
 * Takes out of an output what a message cannot hold: artifacts and a text over 256 KiB, and then the largest until no more than 512 KiB
 * stay. `{ part: "artifact:<n>", kind }` stands in an artifact's place (of a finding also its `severity`), so that who does not fetch
 * them knows what a person may have to decide about; `{ part: "output", begins }` in the text's. All parts given belong into the store.
 */
export function splitOutput(output: WorkOutput): { output: Json; parts: Part[] } {
  const { artifacts, output: text = '' } = output
  const whole = output as unknown as Json
  if (artifacts.length === 0 && text.length <= SHORT_TEXT) return { output: whole, parts: [] }
  const pieces = artifacts.map(artifactPiece)
  const said = textPiece(text)
  const rest = without(output, OUTPUT_APART, {})
  const moved = tooLarge([...pieces, said], sizeOf(rest))
  if (moved.size === 0) return { output: whole, parts: [] }
  rest.artifacts = pieces.map((piece, index) => (moved.has(piece) ? piece.reference : artifacts[index]))
  if (output.output !== undefined) rest.output = moved.has(said) ? said.reference : text
  return { output: rest, parts: [...pieces, said].flatMap((piece) => (moved.has(piece) ? [piece.part()] : [])) }
}

function artifactPiece(artifact: WorkArtifact, index: number): Piece {
  const name = ARTIFACT + index
  const data = utf8(canonicalJson(artifact))
  const kind = artifact.type
  const reference = kind === 'finding' ? { part: name, kind, severity: artifact.severity } : { part: name, kind }
  return { size: data.length, part: () => partOf(name, data), reference }
}

function textPiece(text: string): Piece {
  return {
    size: sizeOf(text),
    part: () => partOf(OUTPUT_TEXT, utf8(text)),
    reference: { part: OUTPUT_TEXT, begins: prefix(text, TEXT_BEGINS) },
  }
}

function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value))
}

/** Puts the artifacts and the text back. The output's form is not checked. */
export function joinOutput(output: Json, parts: LoadedPart[]): Joined<Json> {
  const one = oneTaker(parts)
  const take = (name: string) => {
    const data = one(name)
    if (!data) throw new Error(`the part "${name}" is missing`)
    return data
  }
  try {
    const joined = { ...output }
    if (Array.isArray(output.artifacts)) joined.artifacts = output.artifacts.map((artifact: unknown) => joinArtifact(artifact, take))
    if (isTextReference(output.output)) joined.output = CONTENT_TEXT.decode(take(OUTPUT_TEXT))
    return { ok: true, value: joined }
  } catch (error) {
    return { ok: false, error: error instanceof Error ? error.message : String(error) }
  }
}

function joinArtifact(artifact: unknown, take: (name: string) => Uint8Array): unknown {
  const name = partName(artifact)
  return name === undefined ? artifact : jsonOf(take(name))
}

function isTextReference(value: unknown): boolean {
  return typeof value === 'object' && value !== null && (value as { part?: unknown }).part === OUTPUT_TEXT
}

function partName(artifact: unknown): string | undefined {
  if (typeof artifact !== 'object' || artifact === null) return undefined
  const { part, type } = artifact as { part?: unknown; type?: unknown }
  return type === undefined && typeof part === 'string' && part.startsWith(ARTIFACT) ? part : undefined
}

/** What cannot stay in the message: what is over the limit by itself, then the largest until the rest fits beside `staying` bytes. */
export function tooLarge<Piece extends { size: number }>(pieces: readonly Piece[], staying = 0): Set<Piece> {
  const moved = new Set(pieces.filter(({ size }) => size > PART_INLINE_BYTES))
  let total = pieces.reduce((sum, piece) => (moved.has(piece) ? sum : sum + piece.size), staying)
  for (const piece of [...pieces].sort((a, b) => b.size - a.size)) {
    if (total <= PARTS_INLINE_BYTES) break
    if (moved.has(piece)) continue
    moved.add(piece)
    total -= piece.size
  }
  return moved
}
