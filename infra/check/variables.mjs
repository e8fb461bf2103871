import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../setup/prepare.mjs'
import { filesBelow } from './files.mjs'

/** Checks that every environment variable that the product's code names is on the page of variables, or on that of command workers. */

const PAGES = ['docs/reference/configuration.md', 'docs/guides/command-workers.md']
const NAME = /\b(?:PASSOVER|NATS)_[A-Z][A-Z_]*[A-Z]\b/g
/** Variables that a command sets only for a process that it starts. */
const INTERNAL = new Set(['PASSOVER_EDITED'])

const documented = new Set(PAGES.flatMap((page) => readFileSync(join(ROOT, page), 'utf8').match(NAME) ?? []))

const missing = new Map()
for (const folder of ['packages', 'services']) {
  for (const path of filesBelow(folder)) {
    if (!path.endsWith('.ts') || path.endsWith('.test.ts')) continue
    for (const name of readFileSync(join(ROOT, path), 'utf8').match(NAME) ?? []) {
      if (!documented.has(name) && !INTERNAL.has(name)) missing.set(name, path)
    }
  }
}
for (const [name, path] of missing) process.stderr.write(`${name} (${path}) is not in ${PAGES[0]}\n`)
if (missing.size > 0) process.exitCode = 1
