import { spawnSync } from 'node:child_process'
import { prepare, ROOT } from './prepare.mjs'

/** `npm run bench`: set-up, then the benchmark; with `--rules` only that of the pure rules, which needs no server. */
prepare()
const given = process.argv.slice(2)
const script = given.includes('--rules') ? 'rules' : 'run'
const { status } = spawnSync(process.execPath, [`test/dist/bench/${script}.js`, ...given], { cwd: ROOT, stdio: 'inherit' })
process.exit(status ?? 1)
