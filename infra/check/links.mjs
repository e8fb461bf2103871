import { existsSync, readdirSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { ROOT } from '../setup/prepare.mjs'
import { pageOf } from './page.mjs'

/**
 * Checks that every relative link of every Markdown page names a file that exists, and a heading that the page has. Links to other sites are
 * not checked: this runs offline.
 */

const SKIPPED = new Set(['node_modules', 'dist', 'bundle', 'cache', 'coverage'])
const EXTERNAL = /^[a-z][a-z0-9+.-]*:/i

function* markdownFiles(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.name.startsWith('.') || SKIPPED.has(entry.name)) continue
    const path = join(folder, entry.name)
    if (entry.isDirectory()) yield* markdownFiles(path)
    else if (entry.name.endsWith('.md')) yield path
  }
}

function fault(from, link) {
  if (EXTERNAL.test(link)) return undefined
  const [path, id] = decodeURI(link).split('#')
  const target = path === '' ? from : resolve(dirname(from), path)
  if (!existsSync(target)) return 'there is no such file'
  if (id === undefined || id === '') return undefined
  if (!target.endsWith('.md') || statSync(target).isDirectory()) return undefined
  return pageOf(target).ids.has(id) ? undefined : 'the page has no such heading'
}

for (const page of markdownFiles(ROOT)) {
  for (const link of pageOf(page).links) {
    const reason = fault(page, link)
    if (!reason) continue
    process.stderr.write(`${relative(ROOT, page)}: ${link}: ${reason}\n`)
    process.exitCode = 1
  }
}
