import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { processState } from '../../support/processes/proc.js'
import { startProcess } from '../../support/processes/processes.js'
import { until } from '../../support/processes/until.js'

let folder: string
let echo: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'passover-processes-'))
  echo = join(folder, 'echo.mjs')
  await writeFile(
    echo,
    `process.on('message', (m) => { if (m.end !== undefined) process.exit(m.end); process.send({ event: 'echo', m }) })
     process.stdin.on('data', (d) => process.stdout.write('typed ' + d))
     console.log('ready', process.argv[2])
     process.send({ event: 'ready' })`,
  )
})
afterAll(() => rm(folder, { recursive: true, force: true }))

it('talks by lines, messages and standard input', async () => {
  await using child = startProcess(echo, { args: ['now'] })
  expect(await child.line(/^ready/)).toBe('ready now')
  await child.heard('ready')
  child.tell({ n: 1 })
  child.tell({ n: 2 })
  expect([await child.heard('echo'), await child.heard('echo')]).toEqual([1, 2].map((n) => ({ event: 'echo', m: { n } })))
  child.type('hello\n')
  expect(await child.line(/typed/)).toBe('typed hello')
  expect(await child.rss()).toBeGreaterThan(10 << 20)
  const watch = child.watchRss(10)
  await until(() => watch.highest > 10 << 20, { what: 'memory was measured' })
  child.tell({ end: 3 })
  expect(await child.exited).toEqual({ code: 3, signal: null })
})

it('freezes, thaws and kills', async () => {
  await using child = startProcess(echo)
  await child.heard('ready')
  await child.freeze()
  child.tell({ n: 1 })
  expect(await processState(child.pid)).toBe('T')
  expect(child.said('echo')).toEqual([])
  child.thaw()
  await child.heard('echo')
  expect(await child.kill()).toEqual({ code: null, signal: 'SIGKILL' })
})

it('says why when a process ends before it says what was waited for', async () => {
  const broken = join(folder, 'broken.mjs')
  await writeFile(broken, `console.error('no such luck'); process.exit(7)`)
  await using child = startProcess(broken)
  await expect(child.heard('ready')).rejects.toThrow(/ended before it says ready[\s\S]*exit 7[\s\S]*no such luck/)
})
