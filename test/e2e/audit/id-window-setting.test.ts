import { openBus } from '@passover/bus'
import { expect, it } from 'vitest'
import { Folder, openProject, run, serverFile } from '../../support/fixtures/cli.js'
import { startProcess } from '../../support/processes/processes.js'
import { until } from '../../support/processes/until.js'
import { natsFixture } from '../../support/servers/nats.js'

const START_MS = 120_000
const main = (service: string) => new URL(`../../../services/${service}/dist/main.js`, import.meta.url)

// A rollout: the audit is there first and was told nothing. Fails where it keeps the window that it began with: it would delete by another one
// than dispatchers admit by.
it(
  'a service that began with another id window than the stream has now ends itself, and says so',
  async () => {
    await using nats = await natsFixture()
    const env = { NATS_URL: nats.url, PASSOVER_LOG_LEVEL: 'info' }
    await using audit = startProcess(main('audit'), { env, name: 'audit' })
    await using dispatcher = startProcess(main('dispatcher'), { env, name: 'dispatcher' })
    const both = [audit, dispatcher]
    await until(() => audit.stderr.includes('audit service started') && dispatcher.stderr.includes('dispatcher accepts requests'), {
      what: 'both run',
      deadline_ms: START_MS,
    })
    await using bus = await openBus({ servers: nats.servers, identity: 'passover' })
    await bus.ensureTopology({ id_window_ms: 21_600_000 })
    await until(() => both.every(({ running }) => !running), { what: 'both end', deadline_ms: START_MS })
    for (const { stderr } of both) expect(stderr).toContain('the id window of the stream was changed')
    expect([(await audit.exited).code, (await dispatcher.exited).code]).toEqual([1, 1])
    await using again = startProcess(main('audit'), { env: { ...env, PASSOVER_ID_WINDOW_MS: '21600000' }, name: 'audit' })
    await until(() => again.stderr.includes('audit service started'), { what: 'it runs with the stream’s', deadline_ms: START_MS })
  },
  2 * START_MS,
)

it('passover up writes the id window that it was told into a new stream, and refuses what is none', async () => {
  await using project = await openProject([], { PASSOVER_ID_WINDOW_MS: '7200000' })
  const { url, user, password: pass } = serverFile(project.cwd)
  await using bus = await openBus({ servers: url, identity: 'ann', credentials: { user, pass } })
  await bus.bounds()
  expect(bus.idWindow).toBe(7_200_000)
  using folder = new Folder()
  const refused = await run(['up'], { cwd: folder.path, env: { PASSOVER_ID_WINDOW_MS: '2h' } })
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('PASSOVER_ID_WINDOW_MS does not accept "2h"') })
})
