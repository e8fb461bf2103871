import { outputSchemas } from '@passover/validation'
import { CliFailure } from './failure.js'

/** E030 for a schema that does not compile: it would refuse every output. `where` names it, as its reader knows it. */
export async function requireCompiling(schema: unknown, where: string): Promise<void> {
  await using schemas = outputSchemas()
  const [fault] = await schemas.compile(schema)
  if (fault === undefined) return
  throw new CliFailure('E030', `${where}: ${fault}`, {
    hint: 'it must be a JSON Schema (2020-12, or 07 where $schema says so) that refers to nothing outside itself',
  })
}
