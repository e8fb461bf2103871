import { FAILURE, JSON_SHAPES, NAMED_SHAPES } from '@passover/cli'
import { page } from './page.mjs'

/** Writes docs/reference/json-output.md: what each command prints under --json, as packages/cli/src/render/json-schemas.ts has it. Needs a build. */

const NAMES = new Map(Object.entries(NAMED_SHAPES).map(([name, shape]) => [shape, name]))

/** A schema in the notation of TypeScript; a shape that has a name is called by it. */
function written(schema, isWhole = false) {
  if (!isWhole && NAMES.has(schema)) return `[${NAMES.get(schema)}](#${NAMES.get(schema).toLowerCase()})`
  const { type, ...def } = schema._zod.def
  switch (type) {
    case 'object':
      return object(def)
    case 'array': {
      const element = written(def.element)
      return def.element._zod.def.type === 'union' ? `(${element})[]` : `${element}[]`
    }
    case 'union':
      return [...new Set(def.options.map((one) => written(one)))].join(' \\| ')
    case 'literal':
      return def.values.map((value) => JSON.stringify(value)).join(' \\| ')
    case 'enum':
      return Object.values(def.entries)
        .map((value) => JSON.stringify(value))
        .join(' \\| ')
    case 'record':
      return `Record<string, ${written(def.valueType)}>`
    case 'pipe':
      return written(def.out._zod.def.type === 'transform' ? def.in : def.out)
    case 'lazy':
      return written(def.getter())
    case 'optional':
    case 'default':
    case 'prefault':
    case 'nonoptional':
    case 'readonly':
    case 'catch':
      return written(def.innerType)
    case 'nullable':
      return `${written(def.innerType)} \\| null`
    case 'int':
      return 'number'
    case 'any':
    case 'custom':
      return 'unknown'
    default:
      return type
  }
}

function object({ shape, catchall }) {
  const fields = Object.entries(shape)
  const isOpen = catchall?._zod.def.type === 'unknown'
  if (fields.length === 0) return 'object'
  const parts = fields.map(([name, field]) => `${name}${isOptional(field) ? '?' : ''}: ${written(field)}`)
  return `{ ${[...parts, ...(isOpen ? ['…'] : [])].join('; ')} }`
}

function isOptional(field) {
  const { type, innerType } = field._zod.def
  return type === 'optional' || (type === 'default' && innerType !== undefined)
}

/** Fields of a shared shape that a document holds whole are told by its name. */
function document(schema) {
  const { type, shape, element } = schema._zod.def
  if (type === 'array') return /[&|]/.test(document(element)) ? `(${document(element)})[]` : `${document(element)}[]`
  if (type === 'union') return schema._zod.def.options.map(document).join(' \\| ')
  if (type !== 'object' || NAMES.has(schema)) return written(schema)
  const whole = Object.entries(NAMED_SHAPES).find(([, named]) => {
    const fields = Object.entries(named._zod.def.shape ?? {})
    return fields.length > 2 && fields.every(([name, field]) => shape[name] === field)
  })
  if (!whole) return written(schema)
  const [name, named] = whole
  const rest = Object.fromEntries(Object.entries(shape).filter(([field]) => named._zod.def.shape[field] === undefined))
  const parts = Object.keys(rest).length === 0 ? [] : [object({ ...schema._zod.def, shape: rest })]
  return [`[${name}](#${name.toLowerCase()})`, ...parts].join(' & ')
}

const ROWS = Object.entries(JSON_SHAPES).map(([command, shape]) => `| \`${command}\` | ${document(shape)} |`)
const SHARED = Object.entries(NAMED_SHAPES).map(([name, shape]) => `### ${name}\n\n${written(shape, true)}`)

page(
  'docs/reference/json-output.md',
  `# Output of \`--json\`

Generated from \`packages/cli/src/render/json-schemas.ts\` by \`node infra/setup/json-output.mjs\`: change it there. The tests compare the output of every command with it.

- \`--json\` prints one document on stdout, also if the command fails: \`${written(FAILURE)}\`. Codes and exit codes: [errors](errors.md).
- \`--jsonl\` prints each element of a list on its own line, and any other document on one line. \`work --jsonl\` prints \`{ event, id, … }\` for each event, and \`logs --jsonl\` each entry of the
  timeline and then \`{ id, status, error? }\`.
- A field with \`?\` may be absent; \`…\` stands for further fields. Times are milliseconds since 1970, spans are milliseconds, sizes bytes. New versions may add fields.

| command | document |
| --- | --- |
${ROWS.join('\n')}

## Shared shapes

${SHARED.join('\n\n')}
`,
)
