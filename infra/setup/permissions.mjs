import { permissionTable } from '@passover/bus'
import { page } from './page.mjs'

/**
 * Writes docs/reference/permissions.md: who may publish and subscribe what, as packages/bus/src/permissions/permissions.ts grants it.
 * Needs a build.
 */

const PAGE = `# Permissions

Generated from \`packages/bus/src/permissions/permissions.ts\` by \`node infra/setup/permissions.mjs\`: change it there.

What the NATS server allows each role to publish and subscribe. It refuses everything else. \`test/integration/permissions/permissions.test.ts\` tries each class of subject on a server that enforces this table.

- AGENT, PEER and PERSON stand for names.
- Consumers of agents are listed one by one, since a wildcard cannot stand for a part of a name.
- Dispatcher and audit service sign as \`passover\`, and have a user each: \`passover\` and \`passover.audit\`.

How to give these rights to processes: [security](../operations/security.md). What each subject carries: [events and subjects](events-and-subjects.md).

${permissionTable()}
`

page('docs/reference/permissions.md', PAGE)
