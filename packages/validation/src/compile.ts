import { prefix } from '@passover/schemas'
import { Ajv, type Options, type ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'

/** Result of compiling a schema. */
export type Compiled = { ok: true; faultsOf: (value: unknown) => string[] } | { ok: false; fault: string }

const FAULTS = 10
const FAULT_CHARACTERS = 500
const DRAFT_7 = /^https?:\/\/json-schema\.org\/draft-0[67]\/schema#?$/
/** Compiler options. Unknown keywords are allowed, as in JSON Schema. Nothing is fetched: a $ref must point into the schema itself. */
const OPTIONS: Options = { strict: false, allErrors: true, logger: false, addUsedSchema: false, validateSchema: true }

/**
 * Compiles a schema of draft 2020-12, or of draft 07 or 06 if it declares one. Only for a thread that may be killed: a schema may cause any amount of
 * work.
 */
export function compileSchema(schema: unknown): Compiled {
  try {
    const validate = compilerFor(schema).compile(schema as object)
    return { ok: true, faultsOf: (value) => faultsOf(validate, value) }
  } catch (error) {
    return { ok: false, fault: shortened(`the schema does not compile: ${error instanceof Error ? error.message : String(error)}`) }
  }
}

/** Returns a new compiler for each schema, so that no two schemas share an $id. */
function compilerFor(schema: unknown): Ajv {
  const draft = typeof schema === 'object' && schema !== null ? (schema as { $schema?: unknown }).$schema : undefined
  const ajv: Ajv = typeof draft === 'string' && DRAFT_7.test(draft) ? new Ajv(OPTIONS) : new Ajv2020(OPTIONS)
  formats.default(ajv)
  return ajv
}

function faultsOf(validate: ValidateFunction, value: unknown): string[] {
  try {
    if (validate(value)) return []
  } catch (error) {
    return [shortened(`the schema cannot be applied: ${error instanceof Error ? error.message : String(error)}`)]
  }
  const errors = validate.errors ?? []
  const told = errors.slice(0, FAULTS).map(({ instancePath, message, params }) => {
    const extra = params.additionalProperty ?? params.unevaluatedProperty
    return shortened(`${instancePath || '/'}: ${message ?? 'not valid'}${extra === undefined ? '' : ` (${String(extra)})`}`)
  })
  return told.length > 0 ? told : ['/: not valid']
}

function shortened(text: string): string {
  return text.length > FAULT_CHARACTERS ? `${prefix(text, FAULT_CHARACTERS)}…` : text
}
