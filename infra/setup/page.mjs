import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ROOT } from './prepare.mjs'

/** Writes <folder>/<name>.md, which `infra/setup/<script>.mjs` makes of the code. With --check: exits 1 when the page is not what the code says. */
export function page(name, text, folder = 'infra', script = name) {
  const path = `${folder}/${name}.md`
  const file = join(ROOT, path)
  if (!process.argv.includes('--check')) {
    mkdirSync(dirname(file), { recursive: true })
    return writeFileSync(file, text)
  }
  if (readFileSync(file, 'utf8') === text) return
  process.stderr.write(`${path} is not what the code says; run \`node infra/setup/${script}.mjs\`.\n`)
  process.exitCode = 1
}
