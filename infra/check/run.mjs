import { spawnSync } from 'node:child_process'
import { prepare, ROOT } from '../setup/prepare.mjs'

/** `npm run check`: the house rules that a tool can enforce. Every check runs; the exit code is 1 if any failed. */

const CHECKS = [
  ['types (also of the tests)', process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'test/tsconfig.check.json', '--noEmit']],
  ['lint, format and import directions', process.execPath, ['node_modules/@biomejs/biome/bin/biome', 'check', '--error-on-warnings', '.']],
  ['unused code and dependencies', process.execPath, ['node_modules/knip/bin/knip.js', '--config', '.knip.jsonc']],
  ['JSON Schemas are what the zod schemas say', process.execPath, ['schemas/dist/generate.js', '--check']],
  ['openapi.json is what the gateway serves', process.execPath, ['services/gateway/dist/server/generate-openapi.js', '--check']],
  ['permissions.md is what the code grants', process.execPath, ['infra/setup/permissions.mjs', '--check']],
  ['errors.md is what the code says', process.execPath, ['infra/setup/errors.mjs', '--check']],
  ['folders are small and import in one direction', process.execPath, ['infra/check/rooms.mjs']],
  ['citations lead somewhere', process.execPath, ['infra/check/citations.mjs']],
  ['the index of decisions is complete', process.execPath, ['infra/setup/decisions.mjs', '--check']],
  ['json-output.md is what the code says', process.execPath, ['infra/setup/json-output.mjs', '--check']],
  ['the reference pages are what the code says', process.execPath, ['infra/setup/reference.mjs', '--check']],
  ['links of the documentation', process.execPath, ['infra/check/links.mjs']],
  ['the API reports are what the packages export', process.execPath, ['infra/setup/api-report.mjs', '--check']],
  ['packed packages resolve and have their files', process.execPath, ['infra/check/packages.mjs']],
  ['plain English', process.execPath, ['infra/check/prose.mjs']],
  ['environment variables are documented', process.execPath, ['infra/check/variables.mjs']],
]

await prepare()
let failed = 0
for (const [what, command, args] of CHECKS) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 64 << 20 })
  if (status === 0) {
    process.stdout.write(`✓ ${what}\n`)
    continue
  }
  failed += 1
  process.stdout.write(`✗ ${what}\n${stdout}${stderr}\n`)
}
process.exit(failed ? 1 : 0)
