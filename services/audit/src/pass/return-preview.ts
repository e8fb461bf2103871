import { type Bus, decode, joinOutput, loadParts, type StoredMessage } from '@passover/bus'
import { acceptReturn, cut, modificationsIn, type NumberedModification, outputIn } from '@passover/core'
import { showProposals } from '@passover/core/changes'
import {
  type CameBack,
  HEADER,
  type Part,
  type PassKey,
  type ShownFinding,
  type ShownModification,
  type WorkOutput,
} from '@passover/schemas'

type Json = Record<string, unknown>

const MAX_SUMMARY = 2_000
const MAX_MESSAGE = 500
const MAX_FINDINGS = 10
const MAX_MODIFICATIONS = 500
/** Maximum number of diff steps for all changes of one answer, about 0.1 s during which the service is blocked. */
const MAX_STEPS = 1_000_000
/** Maximum number of characters that are compared and searched for one answer. An approver's own command looks at everything. */
const MAX_TEXT = 1024 * 1024
/** Maximum bytes of separately stored artifacts that are loaded for one answer. */
const MAX_PART_BYTES = 16 * 1024 * 1024
const SEVERITIES = ['error', 'warning', 'info'] as const

/**
 * Summarizes a stored return for a person's decision. Returns `undefined` if it carries an error or cannot be loaded completely (a part is missing,
 * or the parts exceed 16 MiB).
 */
export async function previewReturn(bus: Bus, key: PassKey, returned: StoredMessage): Promise<CameBack | undefined> {
  const output = await wholeOutput(bus, key, returned)
  if (!output) return undefined
  const { status, summary, completion_reason } = output
  const said = summary.generated_summary ?? completion_reason ?? output.output
  const changes = modificationsIn(output)
  return {
    status,
    ...(summary.decision === undefined ? {} : { decision: summary.decision }),
    ...(said ? { summary: cut(said, MAX_SUMMARY) } : {}),
    findings: findingsOf(output),
    modifications: shownChanges(changes.slice(0, MAX_MODIFICATIONS)),
    ...(changes.length > MAX_MODIFICATIONS ? { modifications_left_out: changes.length - MAX_MODIFICATIONS } : {}),
  }
}

async function wholeOutput(bus: Bus, key: PassKey, { data, headers }: StoredMessage): Promise<WorkOutput | undefined> {
  const decoded = decode(data, headers.get(HEADER.contentType))
  const body = decoded.ok && isJson(decoded.value) ? decoded.value : undefined
  if (!body || 'error' in body) return undefined
  const joined = await joinedOutput(bus, outputIn(body, key), Array.isArray(body.parts) ? (body.parts as Part[]) : [])
  const accepted = joined && acceptReturn(joined, key)
  return accepted?.ok ? accepted.output : undefined
}

async function joinedOutput(bus: Bus, output: Json, parts: Part[]): Promise<Json | undefined> {
  if (parts.reduce((sum, { size }) => sum + Number(size), 0) > MAX_PART_BYTES) return undefined
  try {
    const joined = joinOutput(output, await loadParts(bus.parts, parts))
    return joined.ok ? joined.value : undefined
  } catch {
    return undefined
  }
}

function shownChanges(changes: readonly NumberedModification[]): ShownModification[] {
  const files = showProposals(changes, { steps: MAX_STEPS, text: MAX_TEXT })
  return changes.map(({ number, digest, modification }, index) => {
    const { path, operation = 'modify', reason, confidence } = modification
    const { added = 0, removed = 0, omitted, warnings = [] } = files[index] ?? {}
    const doubts = { ...(omitted && { omitted }), ...(warnings.length > 0 && { warnings }) }
    return { number, path, operation, added, removed, reason: cut(reason, MAX_MESSAGE), confidence, digest, ...doubts }
  })
}

function findingsOf({ artifacts, summary }: WorkOutput): CameBack['findings'] {
  const found = artifacts.flatMap((artifact): ShownFinding[] => {
    if (artifact.type !== 'finding') return []
    const { severity, message, location } = artifact
    const place = location ? { path: location.path, ...(location.line === undefined ? {} : { line: location.line }) } : {}
    return [{ severity, message: cut(message, MAX_MESSAGE), ...place }]
  })
  // Findings that are only in the summary have no severity.
  const told = new Set(found.map(({ message }) => message))
  for (const message of summary.findings) {
    if (!told.has(cut(message, MAX_MESSAGE))) found.push({ severity: 'info', message: cut(message, MAX_MESSAGE) })
  }
  const of = (severity: ShownFinding['severity']) => found.filter((one) => one.severity === severity)
  const [error, warning, info] = SEVERITIES.map((severity) => of(severity).length) as [number, number, number]
  return { error, warning, info, shown: SEVERITIES.flatMap(of).slice(0, MAX_FINDINGS) }
}

function isJson(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
}
