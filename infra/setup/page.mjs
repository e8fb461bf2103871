import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './prepare.mjs'

/** Writes infra/<name>.md, which `infra/setup/<name>.mjs` makes of the code. With --check: exits 1 when the page is not what the code says. */
export function page(name, text) {
  const file = join(ROOT, 'infra', `${name}.md`)
  if (!process.argv.includes('--check')) return writeFileSync(file, text)
  if (readFileSync(file, 'utf8') === text) return
  process.stderr.write(`infra/${name}.md is not what the code says; run \`node infra/setup/${name}.mjs\`.\n`)
  process.exitCode = 1
}
