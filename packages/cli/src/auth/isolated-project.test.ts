import { mkdtempSync, readFileSync, renameSync, rmSync, unwatchFile, watchFile, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { openIsolatedProject } from './isolated-project.js'

it('keeps the people it knows while keys.json is moved away, and follows it when it is back', async () => {
  const project = mkdtempSync(join(tmpdir(), 'passover-isolated-'))
  const keys = join(project, 'auth', 'keys.json')
  try {
    using isolated = await openIsolatedProject(project, { person: 'maria', env: {} }, {})
    expect([...isolated.people]).toEqual(['maria'])
    // Listeners of one file run in the order in which they were added: after this one, the project has seen the change.
    const seen = () =>
      new Promise<void>((resolve) => {
        const once = () => {
          unwatchFile(keys, once)
          resolve()
        }
        watchFile(keys, { interval: 100, persistent: false }, once)
      })
    const gone = seen()
    renameSync(keys, `${keys}.away`)
    await gone
    expect([...isolated.people]).toEqual(['maria'])
    const back = seen()
    writeFileSync(keys, readFileSync(`${keys}.away`, 'utf8').replaceAll('"maria"', '"ann"'))
    await back
    expect([...isolated.people]).toEqual(['ann'])
  } finally {
    rmSync(project, { recursive: true, force: true })
  }
})
