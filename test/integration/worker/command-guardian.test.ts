import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { launchCommand, runChild } from '@passover/cli'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../../support/processes/until.js'

async function isWaiting(pid: number): Promise<boolean> {
  const [stat, line] = await Promise.all(['stat', 'cmdline'].map((what) => readFile(`/proc/${pid}/${what}`, 'utf8').catch(() => '')))
  return stat?.includes(') S ') === true && line?.startsWith('sh\0-c\0read ') === true
}

/** A command begins when its group is told to the guardian, and ends when the worker does, however that ended (P5). */
describe.runIf(process.platform === 'linux')('the guardian of commands', () => {
  let folder: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'passover-guardian-'))
  })
  afterEach(() => rm(folder, { recursive: true }))

  const run = (script: string, attend: NonNullable<Parameters<typeof runChild>[0]['attend']>) => {
    const command = launchCommand({
      command: ['sh', '-c', script],
      mechanism: { kind: 'none', why: '' },
      layout: {
        ...{ directory: folder, project: [folder], own: [], program: [], search: [], writable: [] },
        ...{ hidden_files: [], hidden_folders: [], secrets: { folders: [], files: [] } },
      },
      ...{ read_only: false, no_network: false, limited: false, tied: false, gated: true },
    })
    const abort = new AbortController()
    const ended = runChild({
      command,
      input: 'said',
      env: process.env,
      cwd: folder,
      signal: abort.signal,
      kill_after_ms: 100,
      max_output_bytes: 1_000,
      gated: true,
      attend,
      onStderr: () => undefined,
    })
    return { ended, abort }
  }
  const begun = () => existsSync(join(folder, 'begun'))

  // Fails where a command does not wait: the worker may be killed before anybody knows of its group.
  it('makes a command wait until it is told of it, and then run as if it had not waited', async () => {
    let tell: () => void = () => undefined
    const ready = new Promise<void>((resolve) => {
      tell = resolve
    })
    let leader = 0
    const { ended } = run('touch begun; echo $$; cat; echo; if [ -e /proc/$$/fd/3 ]; then echo open; fi', (pid) => {
      leader = pid
      return { ready, ends: [] }
    })
    await until(async () => (await isWaiting(leader)) || begun(), { what: 'it stands in its gate' })
    expect(begun()).toBe(false)
    tell()
    expect(await ended).toMatchObject({ exit: 0, stdout: `${leader}\nsaid\n` })
    expect(begun()).toBe(true)
  })

  it('ends what waits when the pass ends', async () => {
    const { ended, abort } = run('touch begun', () => ({ ready: new Promise(() => undefined), ends: [] }))
    abort.abort()
    expect((await ended).signal).toBe('SIGTERM')
    expect(begun()).toBe(false)
  })
})
