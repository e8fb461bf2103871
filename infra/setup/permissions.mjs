import { permissionTable } from '@passover/bus'
import { page } from './page.mjs'

/**
 * Writes docs/reference/permissions.md: who may publish and subscribe what, as packages/bus/src/permissions.ts grants it.
 * Needs a build.
 */

const PAGE = `# Permissions

What the server lets each role do; everything else it refuses. Generated from \`packages/bus/src/permissions.ts\` by
\`node infra/setup/permissions.mjs\`: change it there. AGENT, PEER and PERSON stand for names; consumers of agents are
listed one by one, since a wildcard cannot stand for a part of a name. Dispatcher and audit service sign as \`passover\` and have
a user each (\`passover\`, \`passover.audit\`). \`test/integration/permissions.test.ts\` tries each class of subject on a server
that enforces this.

${permissionTable()}
`

page('docs/reference/permissions.md', PAGE)
