import { EXIT_CODES } from '@passover/cli'
import { ERRORS, exitCode } from '@passover/core'
import { page } from './page.mjs'

/**
 * Writes docs/reference/errors.md: what each error code says, as packages/core/src/errors.ts has it, and the exit codes of packages/cli/src/failure.ts.
 * Needs a build.
 */

function ofApproval(code, exit) {
  const denied = exitCode({ code, details: { approval: 'denied' } })
  return denied === exit ? '' : `, ${denied} where an approval was denied or expired`
}

const ROWS = Object.entries(ERRORS).map(
  ([code, { name, sentence, action, recoverable, http, exit }]) =>
    `| ${code} | ${name} | ${sentence} | ${action} | ${recoverable ? 'yes' : 'no'} | ${http} | ${exit}${ofApproval(code, exit)} |`,
)
const PAGE = `# Errors

What a pass, a command or a request by HTTP may fail with. Generated from \`packages/core/src/errors.ts\` by \`node infra/setup/errors.mjs\`: change it there.
"again": whether asking once more, with a new id, can help; an error may rule that out (\`recoverable: false\`). Its \`message\` says what was wrong just then, its
\`details\` which field, limit or policy. \`passover\` exits with the number of the last column, and under \`--json\` prints
\`{"error":{"code","message","hint"}}\`, with \`retry_after_ms\`, \`faults\` or \`rule\` where there is one; a failure of which more is known may exit
with another number of \`passover --help\`. There \`code\` may also be \`INTERNAL\`, a fault of ours (exit code 1), and \`INTERRUPTED\`, Ctrl-C while it waited (130).

| code | name | what happened | what to do | again | HTTP | exit |
| --- | --- | --- | --- | --- | --- | --- |
${ROWS.join('\n')}

## Exit codes of \`passover\`

| exit | meaning |
| --- | --- |
${EXIT_CODES.map(([code, what]) => `| ${code} | ${what} |`).join('\n')}
`

page('docs/reference/errors.md', PAGE)
