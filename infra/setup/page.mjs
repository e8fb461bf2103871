import { readFileSync, writeFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { ROOT } from './prepare.mjs'

/** Writes a page that the running script makes of the code. With --check: exits 1 when the page is not what the code says. */
export function page(path, text) {
  const file = join(ROOT, path)
  if (!process.argv.includes('--check')) return writeFileSync(file, text)
  if (readFileSync(file, 'utf8') === text) return
  const script = relative(ROOT, process.argv[1]).replaceAll(sep, '/')
  process.stderr.write(`${path} is not what the code says; run \`node ${script}\`.\n`)
  process.exitCode = 1
}
