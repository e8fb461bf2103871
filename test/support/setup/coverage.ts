import { writeFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { join } from 'node:path'
import { afterAll } from 'vitest'

/**
 * Records which built code this file's tests ran, for infra/test/child-coverage.mjs. vitest cannot: it maps only modules that it transformed.
 * Does nothing unless coverage was asked for.
 */
const directory = process.env.PASSOVER_CHILD_COVERAGE
if (directory) {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
  afterAll(async () => {
    const { result } = await session.post('Profiler.takePreciseCoverage')
    const ours = result.filter(({ url }) => url.startsWith('file:') && !url.includes('/node_modules/'))
    writeFileSync(join(directory, `vitest-${process.pid}-${Date.now()}.json`), JSON.stringify({ result: ours }))
    session.disconnect()
  })
}
