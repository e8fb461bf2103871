import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { writeArchive } from '../support/builders/recorded-archive.js'
import { loadArchive } from './pipelines/loaded-archive.js'

/**
 * `npm run bench -- --replay`: an archive of `--entries N` (default 1,000,000) entries is written into a folder; then `verify`, `replay --what-if` and the timeline of a
 * pass at its end are run over it, and once a server has it `audit rebuild` (of records that are not there, and of all that are) and `audit export`, each a process of its
 * own: how long, at how many entries a second, and the most memory that it ever held.
 */
const MIB = 1024 * 1024
/** Seen from what is built: test/dist/bench. */
const BIN = fileURLToPath(new URL('../../../packages/cli/bin/passover.js', import.meta.url))
/** Its memory is looked at so often. */
const LOOK_MS = 100
/** A policy by which much would have been decided otherwise. */
const OTHER = { defaults: { max_chain_depth: 1, timeout_ms: 20_000 }, pairs: { 'alice->audit': { hold_before_dispatch: true } } }

function given(name: string, otherwise: number): number {
  const at = process.argv.indexOf(`--${name}`)
  return (at > 0 && Number(process.argv[at + 1])) || otherwise
}

interface Ran {
  code: number | null
  stdout: string
  /** Of progress. */
  stderr: string[]
  ms: number
  /** Bytes; undefined where the system does not tell. */
  most: number | undefined
}

async function run(args: string[], cwd: string, more: NodeJS.ProcessEnv = {}): Promise<Ran> {
  const began = performance.now()
  const child = spawn(process.execPath, [BIN, ...args], { cwd, env: { ...process.env, ...more }, stdio: ['ignore', 'pipe', 'pipe'] })
  let stdout = ''
  let stderr = ''
  let most: number | undefined
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const looks = setInterval(() => void peakOf(child.pid).then((bytes) => (most = bytes ?? most)), LOOK_MS)
  const code = await new Promise<number | null>((done, failed) => child.once('error', failed).once('close', done))
  clearInterval(looks)
  return { code, stdout, stderr: stderr.split('\n').filter((line) => line !== ''), ms: performance.now() - began, most }
}

/** The kernel keeps the highest that it ever was. */
async function peakOf(pid: number | undefined): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  const found = /VmHWM:\s+(\d+) kB/.exec(status)
  return found ? Number(found[1]) * 1024 : undefined
}

interface Command {
  name: string
  args: string[]
  tell(stdout: string): string
}

const firstLine = (stdout: string) => stdout.split('\n')[0] ?? ''
const linesOf = (stdout: string) => `${stdout.trim().split('\n').length} lines`

/** What reads a saved folder. `last`: a pass at its end. */
function ofFolder(last: string): Command[] {
  const replay = ['replay', '--archive', 'archive']
  return [
    { name: 'verify', args: ['verify', '--archive', 'archive'], tell: firstLine },
    { name: 'replay --what-if', args: [...replay, '--what-if', 'other.json', '--limit', '1'], tell: firstLine },
    { name: 'replay of a pass', args: [...replay, last], tell: linesOf },
    { name: 'replay of a session', args: [...replay, '--session', 'session-1'], tell: linesOf },
  ]
}

/** What reads an installation's. */
const OF_SERVER: Command[] = [
  { name: 'rebuild of nothing', args: ['audit', 'rebuild'], tell: firstLine },
  { name: 'rebuild of all', args: ['audit', 'rebuild'], tell: firstLine },
  { name: 'export', args: ['audit', 'export', '--out', 'logs', '--csv'], tell: firstLine },
]

interface Where {
  cwd: string
  entries: number
  env?: NodeJS.ProcessEnv
}

async function measure({ name, args, tell }: Command, { cwd, entries, env }: Where): Promise<void> {
  const { code, stdout, stderr, ms, most } = await run(args, cwd, env)
  if (code !== 0) throw new Error(`${name} ended with ${code}: ${stderr.join('\n')}`)
  const memory = most === undefined ? '' : `, at most ${Math.round(most / MIB)} MiB`
  say(
    `${name.padEnd(20)} ${(ms / 1000).toFixed(1)} s, ${Math.round((entries / ms) * 1000)} entries a second${memory}, ${stderr.length} lines of progress: ${tell(stdout)}`,
  )
}

async function main(): Promise<void> {
  const wanted = given('entries', 1_000_000)
  const cwd = await mkdtemp(join(tmpdir(), 'passover-replay-'))
  try {
    const began = performance.now()
    const { entries, passes } = await writeArchive(join(cwd, 'archive'), wanted)
    say(`${entries} entries of ${passes} passes written in ${seconds(began)} s`)
    await writeFile(join(cwd, 'other.json'), JSON.stringify(OTHER))
    for (const command of ofFolder(`pass-${String(passes - 1).padStart(12, '0')}`)) await measure(command, { cwd, entries })
    const loading = performance.now()
    await using nats = await loadArchive(join(cwd, 'archive'), entries)
    say(`archive loaded into a server in ${seconds(loading)} s`)
    for (const command of OF_SERVER) await measure(command, { cwd, entries, env: { NATS_URL: nats.url } })
  } finally {
    await rm(cwd, { recursive: true, force: true })
  }
}

const say = (text: string) => process.stdout.write(`${text}\n`)
const seconds = (since: number) => ((performance.now() - since) / 1000).toFixed(1)

await main()
