import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildProgram } from '@passover/cli'
import { POLICY_FIELDS, SYSTEM_DEFAULTS } from '@passover/core'
import { page } from './page.mjs'
import { ROOT } from './prepare.mjs'

/** Writes the pages of docs/reference that are made of code: the commands, the policy's fields and the HTTP API. Needs a build. */

const HELP_WIDTH = 110

function readJson(path) {
  return JSON.parse(readFileSync(join(ROOT, path), 'utf8'))
}

/** Text of a table's cell. */
function cell(text) {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ')
}

/* Commands */

function helpOf(command) {
  let text = ''
  command.configureOutput({ writeOut: (part) => (text += part), getOutHelpWidth: () => HELP_WIDTH })
  command.configureHelp({ showGlobalOptions: false, helpWidth: HELP_WIDTH })
  command.outputHelp()
  return text.trimEnd()
}

/** A command and those below it, each with the words that name it. */
function* walk(command, words = []) {
  for (const child of command.commands) {
    const name = [...words, child.name()]
    yield { name: name.join(' '), command: child }
    yield* walk(child, name)
  }
}

function cliPage() {
  const program = buildProgram()
  const commands = [...walk(program)]
  const rows = commands.map(({ name, command }) => `| [\`${name}\`](#${name.replaceAll(' ', '-')}) | ${cell(command.description())} |`)
  const sections = commands.map(({ name, command }) => `## ${name}\n\n\`\`\`text\n${helpOf(command)}\n\`\`\``)
  return `# Commands

Generated from the command tree (\`packages/cli/src/program.ts\`) by \`node infra/setup/reference.mjs\`: change it there. Each section is what \`passover <command> --help\` prints,
without the options that every command takes. Output of \`--json\`: [JSON output](json-output.md). Error codes: [errors](errors.md).

| command | purpose |
| --- | --- |
${rows.join('\n')}

## passover

\`\`\`text
${helpOf(program)}
\`\`\`

${sections.join('\n\n')}
`
}

/* Policy */

const LEVEL_NAMES = { override: 'request', pair: 'pair', subagent: 'subagent', global: 'defaults' }
const NARROWER = { false: '`false`', true: '`true`', smaller: 'smaller', subset: 'subset', any: 'any value', none: '–' }

function describedIn(schema, field) {
  return schema.properties[field]?.description
}

function policyPage() {
  const file = (name) => readJson(`schemas/json/${name}.json`)
  const [override, pair, subagent, whole] = [
    'agent-pair-override',
    'agent-pair-preference',
    'subagent-preference',
    'pass-over-preferences',
  ].map(file)
  const { defaults, audit } = whole.properties
  const rows = Object.entries(POLICY_FIELDS).map(([field, { levels, narrower, global }]) => {
    const text = [pair, subagent, override, defaults].map((schema) => describedIn(schema, field)).find((found) => found !== undefined)
    if (text === undefined) throw new Error(`the policy field ${field} has no description in schemas/src/policy/policy.ts`)
    const where = levels.map((level) => (level === 'global' && global ? `defaults (\`${global}\`)` : LEVEL_NAMES[level])).join(', ')
    const value = SYSTEM_DEFAULTS[field]
    return `| \`${field}\` | ${cell(text)} | ${where} | ${value === undefined ? '–' : `\`${JSON.stringify(value)}\``} | ${NARROWER[narrower]} |`
  })
  const auditRows = Object.entries(audit.properties).map(([field, { description }]) => {
    if (description === undefined) throw new Error(`the field audit.${field} has no description in schemas/src/policy/policy.ts`)
    return `| \`${field}\` | ${cell(description)} |`
  })
  return `# Policy fields

Generated from \`schemas/src/policy/policy.ts\` and \`packages/core/src/policy/fields.ts\` by \`node infra/setup/reference.mjs\`: change it there. How a policy is resolved and published: [policy](../concepts/policy.md).

A policy document has four keys: \`defaults\`, \`pairs\` (key \`originator->subagent\`), \`subagents\` (key: the name) and \`audit\`. Unknown keys are refused. Times are milliseconds, sizes bytes.
\`$schema\` may name \`node_modules/@passover/schemas/json/pass-over-preferences.json\`, which gives editors completion and these descriptions.

- **levels**: where the field may be set. *request* is the \`override\` of one request.
- **default**: the value if no level sets it. –: no limit, or no value.
- **narrower**: the direction in which a request may always change the field. Other changes need \`allow_widening\` of the pair, else E013.

| field | meaning | levels | default | narrower |
| --- | --- | --- | --- | --- |
${rows.join('\n')}

A pair or subagent entry may also have a \`reason\`; a pair may record \`created_at\`, \`updated_at\` and \`updated_by\`.

## Audit

| field of \`audit\` | meaning |
| --- | --- |
${auditRows.join('\n')}
`
}

/* HTTP */

/** Statuses that an operation has for reasons of its own; all others are in one table. */
const OWN_STATUSES = /^(2..|409|412|428)$/

function nameOf(schema) {
  return schema?.$ref ? `\`${schema.$ref.split('/').at(-1)}\`` : undefined
}

function parametersOf(parameters, where) {
  const names = parameters
    .filter((parameter) => parameter.in === where)
    .map(({ name, required }) => `\`${name}\`${required ? ' (required)' : ''}`)
  return names.length > 0 ? [`- ${where}: ${names.join(', ')}`] : []
}

function operation(method, path, { summary, parameters = [], requestBody, responses, security }) {
  const body = nameOf(requestBody?.content?.['application/json']?.schema)
  const statuses = Object.entries(responses)
    .filter(([status]) => OWN_STATUSES.test(status))
    .map(([status, { description, content }]) => {
      const schema = nameOf(content?.['application/json']?.schema)
      return `- ${status}: ${description}${schema ? ` (${schema})` : ''}`
    })
  return [
    `### ${method.toUpperCase()} ${path}`,
    '',
    `${summary}.${security?.length === 0 ? ' Needs no token.' : ''}`,
    '',
    ...parametersOf(parameters, 'query'),
    ...parametersOf(parameters, 'header'),
    ...(body ? [`- body: ${body}`] : []),
    ...statuses,
  ].join('\n')
}

function httpPage() {
  const { paths } = readJson('services/gateway/openapi.json')
  const all = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, content]) => ({ path, method, content })),
  )
  const common = new Map(
    all.flatMap(({ content }) => Object.entries(content.responses).map(([status, { description }]) => [status, description])),
  )
  const rows = [...common].filter(([status]) => !OWN_STATUSES.test(status)).sort(([a], [b]) => a.localeCompare(b))
  return `# HTTP API

Generated from \`services/gateway/openapi.json\` by \`node infra/setup/reference.mjs\`. A running gateway serves the same document, with every schema, at \`/openapi.json\`. How to
start the gateway and make tokens: [use the HTTP API](../guides/http-api.md).

Names in code style are schemas of the document. Lists are read page by page: give the \`cursor\` of a page to get the next one.

## Statuses of every operation

Errors are \`application/problem+json\` with the \`code\` of the [error table](errors.md).

| status | meaning |
| --- | --- |
${rows.map(([status, description]) => `| ${status} | ${cell(description)} |`).join('\n')}

## Operations

${all.map(({ path, method, content }) => operation(method, path, content)).join('\n\n')}
`
}

page('docs/reference/cli.md', cliPage())
page('docs/reference/policy.md', policyPage())
page('docs/reference/http-api.md', httpPage())
