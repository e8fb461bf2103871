/** Replaces, in an output, an artifact or text that is stored as a separate part (bus/parts), for readers that do not fetch parts. */
export interface Reference {
  part: string
  kind?: unknown
  severity?: unknown
  begins?: unknown
}

const OTHER = { type: 'message', role: 'internal', content: '', visibility: 'originator_only' }
const CHANGE = { type: 'file_modification', path: '?', old_content: '', new_content: '', reason: '', confidence: 'low' }
const FINDING = { type: 'finding', severity: 'error', category: '?', message: '?' }

/**
 * Returns the output with an empty artifact of the same kind in place of each separately stored artifact, and the beginning of a separately stored
 * text. The number of artifacts stays the same, and the rest can be validated.
 */
export function withPartPlaceholders(output: Record<string, unknown>): Record<string, unknown> {
  // Copied only if there is something to replace: nearly all outputs are small and complete.
  if (!hasReferences(output)) return output
  const filled = { ...output }
  const { artifacts, output: text } = output
  if (Array.isArray(artifacts)) filled.artifacts = artifacts.map((one: unknown) => (isReference(one) ? placeholderFor(one) : one))
  if (isReference(text)) filled.output = typeof text.begins === 'string' ? text.begins : ''
  return filled
}

/** Returns true if an artifact or the text of the output is stored separately. */
export function hasReferences({ artifacts, output }: Record<string, unknown>): boolean {
  return (Array.isArray(artifacts) && artifacts.some(isReference)) || isReference(output)
}

function isReference(value: unknown): value is Reference {
  if (typeof value !== 'object' || value === null) return false
  const { type, part } = value as { type?: unknown; part?: unknown }
  return type === undefined && typeof part === 'string'
}

/** The reference carries kind and severity, because they determine whether a person has to decide. */
function placeholderFor({ kind, severity }: Reference): unknown {
  if (kind === 'file_modification') return CHANGE
  return kind === 'finding' && severity === 'error' ? FINDING : OTHER
}
