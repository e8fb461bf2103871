import type { Part, WorkArtifact, WorkContext, WorkOutput } from '@passover/schemas'
import { canonicalJson, PART_INLINE_BYTES, PARTS_INLINE_BYTES, prefix, sha256 } from '@passover/schemas'

/** A part with its bytes. */
export interface LoadedPart {
  name: string
  data: Uint8Array
}

/** The joined value, or the error that prevents joining (a fault of the process that created the parts). */
export type Joined<T> = { ok: true; value: T } | { ok: false; error: string }

const FILE = 'file:'
const ARTIFACT = 'artifact:'
const OUTPUT_TEXT = 'output'
/** Length of a text that always fits inline: JSON needs at most six bytes per character. */
const SHORT_TEXT = PART_INLINE_BYTES / 6
/** Number of characters at the beginning of a text that stay in the message, as a summary for readers that do not fetch the part. */
const TEXT_BEGINS = 2_000
const TEXT = new TextDecoder('utf-8', { fatal: true })
/** Decoder for file content, of which a byte order mark is a part. */
const CONTENT_TEXT = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

type Json = Record<string, unknown>

function partOf(name: string, data: Uint8Array): Part {
  return { name, hash: sha256(data), size: data.length, data: data as Uint8Array<ArrayBuffer> }
}

function jsonPart(name: string, value: unknown): Part {
  return partOf(name, utf8(canonicalJson(value)))
}

/** Encodes text using Node's buffer pool: a separate allocation costs more than the bytes of a small part. */
function utf8(text: string): Uint8Array {
  const bytes = Buffer.from(text)
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length)
}

function jsonOf(data: Uint8Array): unknown {
  return JSON.parse(TEXT.decode(data))
}

/**
 * Splits a context into parts that can be dropped or forwarded without decoding: `context` (everything else), `messages`, `tool_results`, and each
 * file's content (docs/architecture/protocol.md#payloads). Throws on values that RFC 8785 cannot represent.
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
 * Joins a context from the available parts: dropped parts are absent, and dropped messages are an empty list. Content that has a part of its own must
 * not be in the part `context`, because policy drops parts by name and approvers see parts by name. Does not validate the context otherwise.
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
    // Approvers are shown the objective as text.
    if (typeof rest.objective !== 'string') throw new Error('the objective is not text')
    return { ok: true, value: joined as unknown as WorkContext }
  } catch (error) {
    return { ok: false, error: error instanceof Error ? error.message : String(error) }
  }
}

function misplaced(what: string): Error {
  return new Error(`${what} is in the part "context", but belongs in its own part`)
}

const APART = new Set(['messages', 'tool_results', 'files'])
const CONTENT = new Set(['content'])
const OUTPUT_APART = new Set(['artifacts', 'output'])

function entryOf(file: WorkContext['files'][number]): Json {
  return without(file, CONTENT, file.content === null ? { content: null } : {})
}

/** Copies an object without some fields. Assigns in a loop: rest patterns and leading spreads cost several µs and slow down later code. */
function without(from: object, left_out: ReadonlySet<string>, into: Json): Json {
  for (const name in from) if (!left_out.has(name)) into[name] = (from as Json)[name]
  return into
}

/**
 * Returns a function that returns each part by name, once. A context names each file once, and an output each artifact. A body that named one part
 * many times would grow to many times its bytes: 1 MB to gigabytes.
 *
 * The function throws an Error for a part that was returned before, and returns `undefined` for one that does not exist.
 */
function oneTaker(parts: LoadedPart[]): (name: string) => Uint8Array | undefined {
  const named = new Map(parts.map(({ name, data }) => [name, data]))
  const taken = new Set<string>()
  return (name) => {
    const data = named.get(name)
    if (data && taken.has(name)) throw new Error(`the part "${name}" is referenced twice`)
    taken.add(name)
    return data
  }
}

/** A field of an output that can be moved to a part: its size in the message, and the part if it is moved. */
interface Piece {
  size: number
  part: () => Part
  /** Replaces it in the message. */
  reference: Json
}

/**
 * Moves content that is too large for a message out of an output: artifacts and a text over 256 KiB, and then the largest until at most 512 KiB stay.
 * An artifact is replaced by `{ part: "artifact:<n>", kind }` (for a finding also its `severity`), so that readers that do not fetch it know what a
 * person may have to decide about; the text by `{ part: "output", begins }`. All returned parts belong in the store.
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

/** Restores the artifacts and the text of an output. Does not validate the output. */
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

/**
 * Selects the pieces to move out of a message: those over the limit individually, then the largest until the rest fits together with `staying` bytes.
 */
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
