/** Stands in an output for an artifact that travels as a part of its own (bus/parts), for readers that do not fetch parts. */
export interface Reference {
  part: string
  kind?: unknown
  severity?: unknown
}

const OTHER = { type: 'message', role: 'internal', content: '', visibility: 'originator_only' }
const CHANGE = { type: 'file_modification', path: '?', old_content: '', new_content: '', reason: '', confidence: 'low' }
const FINDING = { type: 'finding', severity: 'error', category: '?', message: '?' }

/** The output with an empty artifact of its kind in the place of each that travels apart: it counts as one, and the rest can be checked. */
export function withStandIns(output: Record<string, unknown>): Record<string, unknown> {
  // Copied only where something is to be put in: nearly all outputs are small and whole.
  if (!Array.isArray(output.artifacts) || !output.artifacts.some(isReference)) return output
  return { ...output, artifacts: output.artifacts.map((artifact: unknown) => (isReference(artifact) ? standIn(artifact) : artifact)) }
}

export function isReference(artifact: unknown): artifact is Reference {
  if (typeof artifact !== 'object' || artifact === null) return false
  const { type, part } = artifact as { type?: unknown; part?: unknown }
  return type === undefined && typeof part === 'string'
}

/** What decides whether a person is asked is told beside the reference. */
function standIn({ kind, severity }: Reference): unknown {
  if (kind === 'file_modification') return CHANGE
  return kind === 'finding' && severity === 'error' ? FINDING : OTHER
}
