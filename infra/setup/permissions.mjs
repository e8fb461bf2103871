import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { permissionTable } from '@passover/bus'
import { ROOT } from './prepare.mjs'

/**
 * Writes infra/permissions.md: who may publish and subscribe what, as packages/bus/src/permissions.ts grants it.
 * With --check: exits 1 when the page is not what the code says. Needs a build.
 */

const FILE = join(ROOT, 'infra', 'permissions.md')
const PAGE = `# Permissions

What the server lets each role do; everything else it refuses. Generated from \`packages/bus/src/permissions.ts\` by
\`node infra/setup/permissions.mjs\`: change it there. AGENT, PEER and PERSON stand for names; buckets and consumers of agents are
listed one by one, since a wildcard cannot stand for a part of a name. Dispatcher and audit service sign as \`passover\` and have
a user each (\`passover\`, \`passover.audit\`). \`test/integration/permissions.test.ts\` tries each class of subject on a server
that enforces this.

${permissionTable()}
`

if (process.argv.includes('--check')) {
  if (readFileSync(FILE, 'utf8') === PAGE) process.exit(0)
  process.stderr.write('infra/permissions.md is not what the code grants; run `node infra/setup/permissions.mjs`.\n')
  process.exit(1)
}
writeFileSync(FILE, PAGE)
