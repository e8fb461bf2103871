import type { EffectivePolicy, PassError, Rights, WorkControl, WorkOutput } from '@passover/schemas'
import { passError } from '../errors.js'

/** Requirements of a particular pass for its return, in addition to what every output must be. */
export interface OutputConstraints {
  /** Rights that the subagent was given. */
  rights?: Pick<Rights, 'can_run_tools' | 'tools'> | undefined
  /** Violations of the subagent's output_schema, found in a process that can be killed in case the schema is hostile. */
  schema_faults?: readonly string[] | undefined
}

const ISSUES_SHOWN = 10

/** Returns E013 if the rights forbid something in the output, E021 if the output violates its output_schema. Both name the field. */
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

/** Returns E013 unless a pass with these rights may run the tool: `can_run_tools`, and `tools` if it lists any. */
export function toolFault(tool: string, rights: NonNullable<OutputConstraints['rights']>): PassError | undefined {
  if (!rights.can_run_tools) return passError('E013', `This pass may not run tools, but it ran ${tool}`, { field: 'can_run_tools', tool })
  if (!rights.tools || rights.tools.includes(tool)) return undefined
  return passError('E013', `This pass may not run the tool ${tool}`, { field: 'tools', tool, allowed: rights.tools })
}

/** Returns the schema that outputs of this pass must match, or `undefined` if there is none or `validate_output` is off. */
export function schemaToCheck({ policy }: Pick<WorkControl, 'policy'>): EffectivePolicy['output_schema'] {
  return policy.validate_output === false ? undefined : policy.output_schema
}

/** Returns the schema for one output. An output that failed or was aborted is not checked. */
export function schemaFor(output: unknown, control: Pick<WorkControl, 'policy'>): EffectivePolicy['output_schema'] {
  const status = (output as { status?: unknown } | undefined)?.status
  return status === 'failed' || status === 'aborted' ? undefined : schemaToCheck(control)
}

/** Violations of a schema by an output, or why the schema was not applied. */
export type SchemaVerdict = { faults: readonly string[] } | { unchecked: string }

/** Applies a subagent's JSON Schema in isolation, where a hostile schema can do no harm. */
export type CheckSchema = (schema: unknown, value: unknown, subagent: string) => Promise<SchemaVerdict>

/** Returns the constraints of a pass for a given output. Without a function to check a schema, only the rights. */
export async function outputConstraints(
  output: unknown,
  control: Pick<WorkControl, 'policy' | 'rights' | 'subagent_id'>,
  check: CheckSchema | undefined,
): Promise<OutputConstraints> {
  const { rights } = control
  const schema = schemaFor(output, control)
  if (!schema || !check) return { rights }
  const verdict = await check(schema, output, control.subagent_id)
  // An output that could not be checked is not delivered as valid.
  return { rights, schema_faults: 'faults' in verdict ? verdict.faults : [verdict.unchecked] }
}
