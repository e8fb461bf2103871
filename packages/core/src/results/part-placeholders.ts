/** Stands in an output for an artifact, or its text, that travels as a part of its own (bus/parts), for readers that do not fetch parts. */
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
 * The output with an empty artifact of its kind in the place of each that travels apart, and of a text that does its beginning: it counts
 * as one, and the rest can be checked.
 */
export function withPartPlaceholders(output: Record<string, unknown>): Record<string, unknown> {
  // Copied only where something is to be put in: nearly all outputs are small and whole.
  if (!hasReferences(output)) return output
  const filled = { ...output }
  const { artifacts, output: text } = output
  if (Array.isArray(artifacts)) filled.artifacts = artifacts.map((one: unknown) => (isReference(one) ? placeholderFor(one) : one))
  if (isReference(text)) filled.output = typeof text.begins === 'string' ? text.begins : ''
  return filled
}

/** Whether something of the output travels apart. */
export function hasReferences({ artifacts, output }: Record<string, unknown>): boolean {
  return (Array.isArray(artifacts) && artifacts.some(isReference)) || isReference(output)
}

function isReference(value: unknown): value is Reference {
  if (typeof value !== 'object' || value === null) return false
  const { type, part } = value as { type?: unknown; part?: unknown }
  return type === undefined && typeof part === 'string'
}

/** What decides whether a person is asked is told beside the reference. */
function placeholderFor({ kind, severity }: Reference): unknown {
  if (kind === 'file_modification') return CHANGE
  return kind === 'finding' && severity === 'error' ? FINDING : OTHER
}
