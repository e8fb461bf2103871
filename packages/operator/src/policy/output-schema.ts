import { formatValue, isBody, type PolicyFault, pathText } from '@passover/core'
import { type OutputSchemas, outputSchemas } from '@passover/validation'
import { Failure } from '../errors.js'

const EXPECTED = 'a JSON Schema (2020-12, or draft 07 with that $schema) without external references'

/** Throws E030 for a schema that does not compile, since it would reject every output. `where` names the schema in the error. */
export async function requireCompiling(schema: unknown, where: string): Promise<void> {
  await using schemas = outputSchemas()
  const fault = await faultOf(schemas, schema)
  if (fault !== undefined) throw new Failure('E030', `${where}: ${fault}`, { hint: `it must be ${EXPECTED}` })
}

/** Returns a fault for every output_schema of a policy document that does not compile. The document may be invalid otherwise. */
export async function schemaFaults(document: unknown): Promise<PolicyFault[]> {
  const schemasToCheck = schemasIn(document)
  if (schemasToCheck.length === 0) return []
  const faults: PolicyFault[] = []
  await using schemas = outputSchemas()
  for (const { at, schema } of schemasToCheck) {
    const why = await faultOf(schemas, schema)
    const path = pathText(at)
    const place = { level: 'subagent' as const, path, at, value: schema }
    const fault = { message: `${path}: ${why}`, path, places: [place], found: formatValue(schema), expected: EXPECTED }
    if (why !== undefined) faults.push({ code: 'E030', severity: 'error', ...fault })
  }
  return faults
}

async function faultOf(schemas: OutputSchemas, schema: unknown): Promise<string | undefined> {
  const [fault] = await schemas.compile(schema)
  return fault
}

function schemasIn(document: unknown): { at: string[]; schema: unknown }[] {
  const subagents = isBody(document) && isBody(document.subagents) ? document.subagents : {}
  return Object.entries(subagents).flatMap(([name, entry]) =>
    isBody(entry) && isBody(entry.output_schema) ? [{ at: ['subagents', name, 'output_schema'], schema: entry.output_schema }] : [],
  )
}
