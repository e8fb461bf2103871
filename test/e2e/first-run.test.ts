import { readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from './cli-harness.js'

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
