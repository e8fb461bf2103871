import type { EffectivePolicy, PassError, Rights, WorkControl, WorkOutput } from '@passover/schemas'
import { passError } from '../errors.js'

/** What a pass itself says about its return, beside what every output must be. */
export interface OutputConstraints {
  /** What the subagent was told that it may do. */
  rights?: Pick<Rights, 'can_run_tools' | 'tools'> | undefined
  /** What the subagent's output_schema has against it, found where a hostile schema can be killed. */
  schema_faults?: readonly string[] | undefined
}

const ISSUES_SHOWN = 10

/** E013 for what the rights forbid, E021 for what the output_schema has against it; both name the field. */
export function constraintFault(
  output: Pick<WorkOutput, 'artifacts'>,
  { rights, schema_faults }: OutputConstraints,
): PassError | undefined {
  const forbidden = rights && firstForbidden(output, rights)
  if (forbidden) return forbidden
  const faults = schema_faults?.slice(0, ISSUES_SHOWN) ?? []
  if (faults.length === 0) return undefined
  return passError('E021', `The output fails its output_schema: ${faults.join('; ')}`, { field: 'output_schema', issues: faults })
}

function firstForbidden(
  { artifacts }: Pick<WorkOutput, 'artifacts'>,
  rights: NonNullable<OutputConstraints['rights']>,
): PassError | undefined {
  for (const artifact of artifacts) {
    const fault = artifact.type === 'tool_result' ? toolFault(artifact.tool_name, rights) : undefined
    if (fault) return fault
  }
  return undefined
}

/** E013 unless a pass with these rights may run the tool: `can_run_tools`, and `tools` where it lists any. */
export function toolFault(tool: string, rights: NonNullable<OutputConstraints['rights']>): PassError | undefined {
  if (!rights.can_run_tools) return passError('E013', `This pass may run no tools, and ${tool} was`, { field: 'can_run_tools', tool })
  if (!rights.tools || rights.tools.includes(tool)) return undefined
  return passError('E013', `This pass may not run the tool ${tool}`, { field: 'tools', tool, allowed: rights.tools })
}

/** The schema that outputs of this pass must fit; undefined: none, or `validate_output` is off. */
export function schemaToCheck({ policy }: Pick<WorkControl, 'policy'>): EffectivePolicy['output_schema'] {
  return policy.validate_output === false ? undefined : policy.output_schema
}

/** The same for one output: what failed or was aborted has nothing that could fit. */
export function schemaFor(output: unknown, control: Pick<WorkControl, 'policy'>): EffectivePolicy['output_schema'] {
  const status = (output as { status?: unknown } | undefined)?.status
  return status === 'failed' || status === 'aborted' ? undefined : schemaToCheck(control)
}

/** What a schema has against an output, or why it was not applied. */
export type SchemaVerdict = { faults: readonly string[] } | { unchecked: string }

/** Applies a subagent's JSON Schema where it can do no harm. */
export type CheckSchema = (schema: unknown, value: unknown, subagent: string) => Promise<SchemaVerdict>

/** The terms of a pass whose output is at hand; where there is nobody to apply a schema, only the rights. */
export async function outputConstraints(
  output: unknown,
  control: Pick<WorkControl, 'policy' | 'rights' | 'subagent_id'>,
  check: CheckSchema | undefined,
): Promise<OutputConstraints> {
  const { rights } = control
  const schema = schemaFor(output, control)
  if (!schema || !check) return { rights }
  const verdict = await check(schema, output, control.subagent_id)
  // An output that was not checked is not delivered as valid.
  return { rights, schema_faults: 'faults' in verdict ? verdict.faults : [verdict.unchecked] }
}
