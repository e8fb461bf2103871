import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { WorkContext } from '@passover/schemas'

/** The root of this repository; this file runs from infra/dist/start. */
export const ROOT = fileURLToPath(new URL('../../../', import.meta.url)).replace(/[/\\]$/, '')
const PROJECT = join(ROOT, 'infra', 'start', 'project')
/** Copies of earlier runs that are kept, to look at. */
const KEPT = 3

/** A fresh copy of the project that is built and mended, so that the tracked files stay as they are. */
export function copyProject(state: string): string {
  mkdirSync(state, { recursive: true, mode: 0o700 })
  const numbers = earlier(state)
  for (const old of numbers.slice(0, Math.max(0, numbers.length - KEPT + 1)))
    rmSync(join(state, `demo-${old}`), { recursive: true, force: true })
  let number = (numbers.at(-1) ?? 0) + 1
  for (;;) {
    const target = join(state, `demo-${number}`)
    try {
      // Two that start at once must not share a copy: who makes the folder has it.
      mkdirSync(target)
      cpSync(PROJECT, target, { recursive: true })
      return target
    } catch (error) {
      if (!existsSync(target)) throw error
      number += 1
    }
  }
}

function earlier(state: string): number[] {
  return readdirSync(state)
    .flatMap((name) => /^demo-(\d+)$/.exec(name)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b)
}

/** Every file of the project as a work context carries it. */
export function readProject(directory: string): WorkContext['files'] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => {
      const path = join(entry.parentPath, entry.name)
      const { size, mtimeMs } = statSync(path)
      return {
        path: relative(directory, path).split(sep).join('/'),
        content: readFileSync(path, 'utf8'),
        metadata: { size_bytes: size, last_modified: Math.floor(mtimeMs), is_binary: false },
      }
    })
    .sort((a, b) => (a.path < b.path ? -1 : 1))
}
