import { spawnSync } from 'node:child_process'
import { prepare, ROOT } from './prepare.mjs'

/**
 * `npm run bench`: set-up, then the benchmark; with `--rules` only that of the pure rules, which needs no server;
 * `--isolation` and `--overload`: what trouble on one subject costs another, and what each process holds at ten times what can be served;
 * `--accounts` (`cost`, `thousand`, `answers`): what an account of its own for each agent costs, and what a thousand of them do;
 * `--timers`: how late deadlines are kept with 100,000 open passes; `--lag` (`--feed`: agents and dispatcher elsewhere): how far the audit’s records are behind at 2,000 passes a second;
 * `--query`: how soon a page of a query over a million records is answered; `--flat` (`--feed`): whether memory and disk stay flat with a short id window;
 * `--replay`: how fast, and with how much memory, `verify`, `replay`, `audit rebuild` and `audit export` read an archive of a million entries;
 * `--soon`: how soon an installation follows a new policy and mends itself.
 */
await prepare()
const given = process.argv.slice(2)
const APART = ['rules', 'isolation', 'accounts', 'overload', 'timers', 'lag', 'query', 'flat', 'replay', 'soon']
const apart = APART.find((name) => given.includes(`--${name}`))
const script = apart ?? 'run'
const { status } = spawnSync(process.execPath, [`test/dist/bench/${script}.js`, ...given], { cwd: ROOT, stdio: 'inherit' })
process.exit(status ?? 1)
