import { existsSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { ROOT } from '../setup/prepare.mjs'
import { filesBelow } from './files.mjs'
import { pageOf } from './page.mjs'

/**
 * Checks that every relative link of every Markdown page names a file that exists, and a heading that the page has. Links to other sites are
 * not checked: this runs offline.
 */

const EXTERNAL = /^[a-z][a-z0-9+.-]*:/i

function fault(from, link) {
  if (EXTERNAL.test(link)) return undefined
  const [path, id] = decodeURI(link).split('#')
  const target = path === '' ? from : resolve(dirname(from), path)
  if (!existsSync(target)) return 'there is no such file'
  if (id === undefined || id === '') return undefined
  if (!target.endsWith('.md') || statSync(target).isDirectory()) return undefined
  return pageOf(target).ids.has(id) ? undefined : 'the page has no such heading'
}

for (const page of filesBelow()) {
  if (!page.endsWith('.md')) continue
  const path = join(ROOT, page)
  for (const link of pageOf(path).links) {
    const reason = fault(path, link)
    if (!reason) continue
    process.stderr.write(`${page}: ${link}: ${reason}\n`)
    process.exitCode = 1
  }
}
