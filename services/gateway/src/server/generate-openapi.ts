import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { openApiDocument } from './openapi-document.js'

/** Writes openapi.json, or with `--check` reports whether it is up to date with the routes. */
function generate(args: string[]): { code: number; line: string } {
  const path = fileURLToPath(new URL('../../openapi.json', import.meta.url))
  const wanted = `${JSON.stringify(openApiDocument(), null, 1)}\n`
  if (readOrNothing(path) === wanted) return { code: 0, line: 'openapi.json is up to date' }
  if (args.includes('--check'))
    return { code: 1, line: 'services/gateway/openapi.json differs from its routes: npm run generate -w @passover/gateway, and commit it' }
  writeFileSync(path, wanted)
  return { code: 0, line: 'openapi.json written' }
}

function readOrNothing(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

const { code, line } = generate(process.argv.slice(2))
process.stdout.write(`${line}\n`)
process.exitCode = code
