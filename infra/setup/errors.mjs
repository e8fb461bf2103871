import { EXIT_CODES } from '@passover/cli'
import { ERRORS, exitCode } from '@passover/core'
import { page } from './page.mjs'

/**
 * Writes docs/reference/errors.md: what each error code says, as packages/core/src/errors.ts has it, and the exit codes of packages/cli/src/errors.ts.
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

Generated from \`packages/core/src/errors.ts\` by \`node infra/setup/errors.mjs\`: change it there.

The errors with which a pass, a command or an HTTP request can fail.

- **again**: whether a new request, with a new id, can succeed. A single error may rule it out (\`recoverable: false\`).
- **exit**: the exit code of \`passover\`. Where more is known about a failure, a command may exit with another code of the second table.
- \`message\` says what was wrong this time, \`details\` which field, limit or policy.
- With \`--json\`, commands print \`{"error":{"code","message","hint"}}\`, with \`retry_after_ms\`, \`faults\` or \`rule\` where there is one. There \`code\` may also be \`INTERNAL\`, a bug of Passover (exit code 1),
  and \`INTERRUPTED\`, Ctrl-C while the command waited (exit code 130).

When to repeat a request: [retries and timeouts](../guides/retries-and-timeouts.md).

| code | name | what happened | what to do | again | HTTP | exit |
| --- | --- | --- | --- | --- | --- | --- |
${ROWS.join('\n')}

## Exit codes of \`passover\`

| exit | meaning |
| --- | --- |
${EXIT_CODES.map(([code, what]) => `| ${code} | ${what} |`).join('\n')}
`

page('docs/reference/errors.md', PAGE)
