import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import {
  CliFailure,
  connectAgent,
  connectAs,
  count,
  describeFailure,
  formatCommands,
  type LocalInstallation,
  resolvePeople,
  resolvePerson,
  resolveServer,
  type ServerSetting,
  type StopSignals,
  startLocal,
  stopSignals,
  write,
} from '@passover/cli'
import { isAlive } from '@passover/nats-server/process-liveness'
import type { Agent } from '@passover/sdk'
import { Left } from './approve.js'
import { audit } from './auditor.js'
import { runCycle } from './cycle.js'
import { hasEnded, type Told } from './owner.js'
import { Stage } from './stage.js'
import { copyProject, ROOT } from './workspace.js'

const USAGE = `npm start            set up, run the Alice → Audit → Alice cycle, and stay up
npm start -- --once  the same, answering by itself, and end after the cycle`

/** From here commands are typed through npx. */
const NPX = { npm_command: 'exec' }

/** The main job. Resolves to the exit code. */
export async function main(argv: string[]): Promise<number> {
  const once = argv.includes('--once')
  const unknown = argv.find((argument) => argument !== '--once')
  if (unknown !== undefined) {
    const help = unknown === '--help' || unknown === '-h'
    write(help ? 'stdout' : 'stderr', help ? `${USAGE}\n` : `There is no ${unknown}.\n${USAGE}\n`)
    return help ? 0 : 2
  }
  const stage = new Stage({ interactive: !once })
  using signals = stopSignals(() => write('stderr', 'Stopped immediately.\n'))
  try {
    return await run(stage, signals, { once })
  } catch (error) {
    if (error instanceof Left) write('stderr', 'Interrupted; nothing was applied.\n')
    if (signals.signal.aborted || error instanceof Left) return 130
    const { document, exit } = await describeFailure(error)
    write(
      'stderr',
      `${stage.terminal.noteColors.red('✗')} ${document.error.message}\n${document.error.hint ? `  ${formatCommands(document.error.hint, NPX)}\n` : ''}`,
    )
    return exit
  }
}

async function run(stage: Stage, signals: StopSignals, options: { once: boolean }): Promise<number> {
  for (;;) {
    await using home = await openHome(stage)
    try {
      return await runIn(home, stage, signals, options)
    } catch (error) {
      // If two commands run in one clone, the first one can end and stop its server during the cycle of the second one.
      const { owner } = home
      if (signals.signal.aborted || error instanceof Left || owner === undefined) throw error
      const onWait = () => write('stderr', `  … process ${owner}, which runs the server, is stopping; waiting until it has ended\n`)
      if (!(await hasEnded(owner, { read: serverFile, onWait }))) throw error
      write('stderr', '  … the command whose server this was has ended; starting again with one of its own\n')
    }
  }
}

async function runIn(home: Home, stage: Stage, signals: StopSignals, { once }: { once: boolean }): Promise<number> {
  const { server } = home
  const watched: { agent?: Agent } = {}
  // Before the agents, so that it goes on while they close.
  using watch = home.owner === undefined ? undefined : watchServer(watched, { owner: home.owner, signals })
  await using auditor = await connectAgent('audit', server, { directory: ROOT })
  watched.agent = auditor
  const worker = await auditor.onPass(audit, {
    concurrency: 2,
    description: 'Runs the TypeScript checker over the files it is passed and proposes corrections',
    // The cycle is shown as the originator sees it.
    log: () => undefined,
  })
  await using alice = await connectAgent('alice', server, { directory: ROOT })
  const cycle = cycleOnce(stage, { alice, server, signals })
  const id = await (watch ? Promise.race([cycle, watch.lost]) : cycle)
  if (once) {
    stage.line('\nDone.')
    return 0
  }
  tellNext(stage, id)
  const why = await Promise.race([signals.first, home.failed, worker.closed.then(() => 'the audit worker ended')])
  if (why !== 'stop') throw new CliFailure('E040', why, { hint: 'run npm start again', exit: 1 })
  write(
    'stderr',
    `\nStopping${worker.running > 0 ? `: ${count(worker.running, 'pass', 'passes')} running` : ''}. Press Ctrl-C again to stop immediately.\n`,
  )
  return 0
}

async function cycleOnce(
  stage: Stage,
  { alice, server, signals }: { alice: Agent; server: ServerSetting; signals: StopSignals },
): Promise<string> {
  const person = resolvePerson({}, process.env)
  await using bus = await connectAs(person === 'alice' || person === 'audit' ? `${person}-person` : person, server)
  if (!stage.terminal.interactive) stage.line(`Nobody can be asked here, so it answers by itself as ${bus.identity}.`)
  return await runCycle({ stage, alice, bus, directory: copyProject(join(ROOT, '.passover')), signal: signals.signal })
}

interface Home extends AsyncDisposable {
  server: ServerSetting
  /** The process that runs the server, where that is another one: the server can stop and come back while this one runs. */
  owner?: number
  failed: Promise<string>
}

/** The project's own server and services: started here, or those that run already. */
async function openHome(stage: Stage): Promise<Home> {
  const { env } = process
  const external = env.NATS_URL ? resolveServer({ server: env.NATS_URL, by: 'NATS_URL' }, env, ROOT) : undefined
  const started = await startLocal({
    directory: ROOT,
    external,
    people: resolvePeople({}, env),
    progress: (text) => write('stderr', `  … ${text}\n`),
  })
  if (started.kind === 'started') {
    stage.line(
      `${stage.terminal.colors.green('✓')} Passover is up at ${started.local.url}${started.local.server ? ` (nats-server ${started.local.server.version})` : ''}`,
    )
    return ownHome(started.local, external)
  }
  stage.line(`${stage.terminal.colors.green('✓')} Passover is up already at ${started.url} (process ${started.pid}); it is used as it is`)
  const server = await runningServer(started.pid)
  // It is not ours to stop.
  return { server, owner: started.pid, failed: new Promise(() => {}), [Symbol.asyncDispose]: async () => {} }
}

const LOOK_MS = 250

interface Watch extends Disposable {
  /** Rejects when the server is lost and the command that ran it has ended. */
  readonly lost: Promise<never>
}

/**
 * Prints when the server of another process is lost, and when it is back. While it is lost, passes wait for it, and so would a graceful stop:
 * Ctrl-C then ends the process at once.
 */
function watchServer(watched: { agent?: Agent }, { owner, signals }: { owner: number; signals: StopSignals }): Watch {
  let isLost = false
  let reject: (error: Error) => void = () => undefined
  const lost = new Promise<never>((_, refuse) => {
    reject = refuse
  })
  lost.catch(() => undefined)
  const look = () => {
    if (isLost && signals.signal.aborted) process.exit(130)
    if (isLost && !isAlive(owner, undefined)) reject(new CliFailure('E040', `process ${owner}, which ran the server, has ended`))
    const connected = watched.agent?.connected ?? true
    if (connected === !isLost) return
    isLost = !connected
    const text = isLost
      ? `the server of process ${owner} does not answer any more; waiting for it. Ctrl-C ends this.`
      : 'the server is back'
    write('stderr', `  … ${text}\n`)
  }
  const timer = setInterval(look, LOOK_MS)
  return { lost, [Symbol.dispose]: () => clearInterval(timer) }
}

function ownHome(local: LocalInstallation, external: ServerSetting | undefined): Home {
  const server = external ?? resolveServer({}, {}, ROOT)
  return { server, failed: local.failed, [Symbol.asyncDispose]: () => local.stop() }
}

const STARTING_MS = 30_000

/** Another process may be just about to write where its server is. */
async function runningServer(pid: number): Promise<ServerSetting> {
  const deadline = Date.now() + STARTING_MS
  while (Date.now() < deadline) {
    if (serverFile()?.pid === pid) return resolveServer({}, {}, ROOT)
    await new Promise((again) => setTimeout(again, 100))
  }
  throw new CliFailure('E040', `process ${pid} runs this project's server, but does not say where`, {
    hint: 'stop it and run npm start again',
  })
}

/** Reads `server.json`. Returns undefined if it does not exist yet or is only partly written. */
function serverFile(): Told | undefined {
  try {
    return JSON.parse(readFileSync(join(ROOT, '.passover', 'server.json'), 'utf8')) as Told
  } catch {
    return undefined
  }
}

function tellNext(stage: Stage, id: string): void {
  const elsewhere = process.env.INIT_CWD ? relative(ROOT, process.env.INIT_CWD) : ''
  const { bold, dim } = stage.terminal.colors
  // All of them: what one imports must be there too.
  const example = 'infra/start/project/src/*.ts'
  stage.line(`\n${bold('Passover stays up. Try, in another terminal')}${elsewhere === '' ? '' : ` (in ${ROOT})`}:`)
  for (const [command, what] of [
    [`npx passover show ${id}`, 'this pass again'],
    ['npx passover list', 'all passes'],
    [`npx passover request --to audit --objective "check this" --auto-return --file ${example}`, 'pass work over yourself'],
    ['npx passover work echo -- printenv PASSOVER_OBJECTIVE', 'work as a subagent'],
  ]) {
    stage.line(`  ${command}`)
    stage.line(dim(`      ${what}`))
  }
  stage.line(dim('\nPress Ctrl-C to stop.'))
}
