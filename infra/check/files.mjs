import { readdirSync } from 'node:fs'
import { join } from 'node:path'

/** What is installed, built or kept by a run, as in .gitignore. */
const SKIPPED = new Set(['.git', '.passover', '.turbo', 'bundle', 'cache', 'coverage', 'dist', 'node_modules'])

/** Yields the paths of all files below a folder that belong to the repository. It asks no git, which an unpacked archive of the sources lacks. */
export function* filesBelow(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (SKIPPED.has(entry.name)) continue
    const path = join(folder, entry.name)
    if (entry.isDirectory()) yield* filesBelow(path)
    else yield path
  }
}
