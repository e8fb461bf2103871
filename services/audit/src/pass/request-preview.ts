import { type Bus, bodyType, decode, type StoredMessage } from '@passover/bus'
import { cut } from '@passover/core'
import { type AskedFor, HEADER, type Part, type WorkControl } from '@passover/schemas'

type Json = Record<string, unknown>

const MAX_OBJECTIVE = 4_000
const MAX_FILES = 200
/** Maximum bytes of a context that is fetched only to show its objective. */
const MAX_CONTEXT = 1024 * 1024
const FILE = 'file:'

/** Describes what a held pass asks for, read from its request. Omits what cannot be read; the decision is bound to the digest in any case. */
export async function previewRequest(bus: Bus, control: WorkControl, request: StoredMessage | undefined): Promise<AskedFor> {
  const body = request && decodedBody(request)
  const { files, objective } = body ? await contextOf(bus, body) : { files: [], objective: UNREADABLE }
  return {
    ...told(objective),
    files: files.slice(0, MAX_FILES),
    ...(files.length > MAX_FILES ? { files_left_out: files.length - MAX_FILES } : {}),
    context_bytes: control.context_bytes,
    timeout_ms: control.timeout_ms,
    constraints: control.constraints,
  }
}

/** Returns the objective, cut to 4,000 characters. A person decides on it, so the result says if it is missing or cut. */
function told(objective: Objective): Pick<AskedFor, 'objective' | 'objective_left_out'> {
  if ('why' in objective) return { objective_left_out: objective.why }
  const shown = cut(objective.text, MAX_OBJECTIVE)
  const more = objective.text.length - MAX_OBJECTIVE
  return { objective: shown, ...(more > 0 ? { objective_left_out: `${more} more characters follow` } : {}) }
}

/** Returns the objective of a stored request, or `undefined` if it cannot be read. */
export async function objectiveOf(bus: Bus, request: StoredMessage): Promise<string | undefined> {
  const body = decodedBody(request)
  const objective = body && (await contextOf(bus, body)).objective
  return objective && 'text' in objective ? objective.text : undefined
}

/** The text, or the reason why it is unknown. */
type Objective = { text: string } | { why: string }

const UNREADABLE: Objective = { why: 'it cannot be read' }

interface Context {
  objective: Objective
  files: AskedFor['files']
}

/**
 * Reads an envelope with parts, or a plain PassOverRequest from a shell. Distinguishes them exactly as admission does, so that the preview shows what
 * is dispatched.
 */
async function contextOf(bus: Bus, body: Json): Promise<Context> {
  if (!isEnvelope(body)) return plainContext(body.work_context)
  if (!Array.isArray(body.parts)) return { files: [], objective: UNREADABLE }
  const parts = body.parts.filter((part): part is Part => isJson(part) && typeof part.name === 'string')
  const files = parts.flatMap(({ name, size }) => (name.startsWith(FILE) ? [{ path: name.slice(FILE.length), size: sizeOf(size) }] : []))
  const context = parts.find(({ name }) => name === 'context')
  return { objective: context ? await objectiveIn(bus, context) : UNREADABLE, files }
}

async function objectiveIn(bus: Bus, part: Part): Promise<Objective> {
  if (sizeOf(part.size) > MAX_CONTEXT) return { why: `its context has more than ${MAX_CONTEXT} bytes` }
  try {
    return textOf(JSON.parse(new TextDecoder().decode(await bus.parts.fetch(part))))
  } catch {
    return UNREADABLE
  }
}

function plainContext(context: unknown): Context {
  const files = isJson(context) && Array.isArray(context.files) ? context.files.filter(isJson) : []
  const shown = files.flatMap(({ path, content }) =>
    typeof path === 'string' ? [{ path, size: typeof content === 'string' ? Buffer.byteLength(content) : 0 }] : [],
  )
  return { objective: textOf(context), files: shown }
}

function textOf(context: unknown): Objective {
  return isJson(context) && typeof context.objective === 'string' ? { text: context.objective } : { why: 'it is not text' }
}

function isEnvelope(body: Json): boolean {
  return 'v' in body && 'request' in body
}

function decodedBody({ data, headers }: StoredMessage): Json | undefined {
  const decoded = decode(data, bodyType(data, headers.get(HEADER.contentType)))
  return decoded.ok && isJson(decoded.value) ? decoded.value : undefined
}

function sizeOf(size: unknown): number {
  return Number.isSafeInteger(size) && Number(size) >= 0 ? Number(size) : 0
}

function isJson(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
}
