import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { cleanEnvironment, ROOT, Spawned } from '../../support/fixtures/cli.js'

/** The same on other versions of Node, installed by npm: `npm run test:packages`. */
it('installs the packed packages outside of the workspace, type-checks every entry and passes work over', async () => {
  // What is packed is no file of this clone: nobody counts what of it ran.
  const env = cleanEnvironment({ NODE_V8_COVERAGE: undefined })
  const script = join(ROOT, 'infra', 'test', 'packages.mjs')
  const { code, stdout, stderr } = await new Spawned(spawn(process.execPath, [script, '--offline'], { env })).ended
  expect(code, stderr).toBe(0)
  expect(stdout).toContain(`✓ Node ${process.version}`)
})
