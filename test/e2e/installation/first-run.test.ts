import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { ROOT } from '../../support/fixtures/cli.js'
import { startProcess } from '../../support/processes/processes.js'

/** The files that stand as `node <file>` in the scripts of package.json: they run before anything is installed. */
function entries(): string[] {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: Record<string, string> }
  return Object.values(scripts).flatMap((script) => /^node (\S+\.mjs)/.exec(script)?.[1] ?? [])
}

/** What a file takes in before its first line runs, itself and through its own files. */
function loadedFirst(file: string, seen = new Set<string>()): string[] {
  if (seen.has(file)) return []
  seen.add(file)
  const named = [...readFileSync(file, 'utf8').matchAll(/^(?:import|export)\s(?:[^'"]*\sfrom\s)?['"]([^'"]+)['"]/gm)].map(
    ([, name]) => name ?? '',
  )
  return named.flatMap((name) => (name.startsWith('.') ? loadedFirst(resolve(dirname(file), name), seen) : [name]))
}

test('what runs before the set-up needs nothing but Node', () => {
  expect(entries()).toContain('infra/test/run.mjs')
  expect(entries()).toContain('infra/start/bootstrap.mjs')
  for (const entry of entries())
    expect(
      loadedFirst(join(ROOT, entry)).filter((name) => !name.startsWith('node:')),
      entry,
    ).toEqual([])
})

test('of several set-ups at once one runs; another follows when that one is killed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'passover-setup-'))
  const taker = join(folder, 'taker.mjs')
  const lock = pathToFileURL(join(ROOT, 'infra', 'setup', 'lock.mjs')).href
  writeFileSync(
    taker,
    `import { tryLock } from '${lock}'
     process.on('message', async () => process.send({ event: 'tried', took: (await tryLock('${folder}')) !== undefined }))
     process.send({ event: 'ready' })`,
  )
  try {
    const setUps = [1, 2, 3].map(() => startProcess(taker))
    await using _all = { [Symbol.asyncDispose]: async () => void (await Promise.all(setUps.map((one) => one.kill()))) }
    await Promise.all(setUps.map((one) => one.heard('ready')))
    const tryAll = async (those: typeof setUps) => {
      for (const one of those) one.tell({})
      const tried = await Promise.all(those.map((one) => one.heard('tried')))
      return those.filter((_, at) => tried[at]?.took === true)
    }
    const [first, ...none] = await tryAll(setUps)
    expect(none).toEqual([])
    const others = setUps.filter((one) => one !== first)
    expect(await tryAll(others)).toEqual([])
    await first?.kill()
    expect(await tryAll(others)).toHaveLength(1)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
