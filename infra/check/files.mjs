import { readdirSync } from 'node:fs'
import { ROOT } from '../setup/prepare.mjs'

/** Names of folders that hold installed packages, build output, or files that a run keeps. .gitignore lists them too. */
const SKIPPED = new Set(['.git', '.passover', '.turbo', 'bundle', 'cache', 'coverage', 'dist', 'node_modules'])

/**
 * Yields the files of the repository, or of one of its folders, as paths from the root with `/`. Does not use git: an unpacked archive of the sources
 * has no git repository.
 */
export function* filesBelow(folder = '') {
  for (const entry of readdirSync(`${ROOT}/${folder}`, { withFileTypes: true })) {
    if (SKIPPED.has(entry.name)) continue
    const path = folder ? `${folder}/${entry.name}` : entry.name
    if (entry.isDirectory()) yield* filesBelow(path)
    else yield path
  }
}
