import { spawnSync } from 'node:child_process'
import { prepare, ROOT } from './prepare.mjs'

/** `npm run simulate`: set-up, then seeded schedules over a simulated server (test/simulation/run.ts says the options). */
await prepare()
const { status } = spawnSync(process.execPath, ['test/dist/simulation/run.js', ...process.argv.slice(2)], { cwd: ROOT, stdio: 'inherit' })
process.exit(status ?? 1)
