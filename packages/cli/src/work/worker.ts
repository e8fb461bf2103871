import { delimiter, isAbsolute, join, resolve } from 'node:path'
import { serveHealth } from '@passover/bus'
import { PassOverError } from '@passover/core'
import type { HandlerResult, HealthReport } from '@passover/schemas'
import type { Pass } from '@passover/sdk'
import { connectAgent } from '../connection/connect-agent.js'
import type { Context } from '../connection/context.js'
import { healthPortFrom } from '../connection/health-port.js'
import { usage } from '../errors.js'
import { killAllGroups } from '../process/child-process.js'
import { describeSandbox } from '../sandbox/guarantees.js'
import { Sandbox } from '../sandbox/sandbox.js'
import { isProgram } from '../sandbox/tools.js'
import { stopSignals } from '../terminal/stop-signals.js'
import { count } from '../terminal/text.js'
import { passEnvironment } from './environment.js'
import { parseWorkOutput, readOnlyHint } from './exit-status.js'
import { WorkLog } from './log.js'
import { SandboxedRuns } from './sandboxed-run.js'

export interface WorkerRequest {
  agent: string
  command: string[]
  concurrency: number
  kill_after_ms: number
  /** Directories that a read-only command can write. */
  writable: string[]
  /** Prints neither the server nor the sandbox at start, because another worker process of this command has. */
  brief: boolean
}

const MAX_OUTPUT = 64 * 1024 * 1024
/** A drain waits until running passes end, at their deadline at the latest, or until a second Ctrl-C. */
const DRAIN_MS = 86_400_000

/** Runs a worker until Ctrl-C and returns the exit code. */
export async function runWorker(context: Context, request: WorkerRequest): Promise<number> {
  const { terminal } = context
  const program = requireProgram(context, request)
  const agent = await connectAgent(request.agent, request.brief ? context.server() : context.announcedServer(), {
    directory: context.directory,
  })
  await using _agent = agent
  using signals = stopSignals(() => {
    killAllGroups()
    terminal.note('Stopped immediately.')
  })
  process.once('exit', killAllGroups)
  const log = new WorkLog(terminal)
  const { directory, env } = context
  const sandbox = await Sandbox.detect({ directory, env, writable: request.writable, agent: request.agent })
  const runs = new SandboxedRuns(sandbox)
  const work = { ...request, command: [program, ...request.command.slice(1)], cwd: directory, env, runs }
  const worker = await agent.onPass((pass) => workOn(pass, work, log), {
    concurrency: request.concurrency,
    drainMs: DRAIN_MS,
    log: (event) => log.happened(event),
  })
  terminal.note(
    `Working as ${request.agent}: ${request.command.join(' ')}${request.concurrency > 1 ? ` (up to ${request.concurrency} at a time)` : ''}. Press Ctrl-C to stop.`,
  )
  if (!request.brief) terminal.note(describeSandbox(sandbox))
  await using _health = await tellHealth(context, () => agent.health())
  // Tells the parent of several workers (replicas.ts), if there is one, that this worker works.
  process.send?.({ works: true })
  const why = await Promise.race([signals.first, worker.closed.then(() => 'closed' as const)])
  if (worker.running > 0)
    terminal.note(`Stopping: ${count(worker.running, 'pass', 'passes')} running. Press Ctrl-C again to stop immediately.`)
  await worker.drain()
  if (terminal.mode === 'json') terminal.show({ agent: request.agent, ...log.sums, sandbox: sandbox.guarantees }, () => '')
  else terminal.note(`Stopped after ${count(log.sums.passes, 'pass', 'passes')}.`)
  return why === 'closed' ? 5 : 0
}

/** Serves `/livez` and `/readyz` if PASSOVER_HEALTH_PORT is set. */
async function tellHealth({ env, terminal }: Context, report: () => HealthReport): Promise<AsyncDisposable | undefined> {
  const port = healthPortFrom(env)
  if (port === undefined) return undefined
  const endpoint = await serveHealth(report, port)
  terminal.note(`Health: ${endpoint.url}/readyz`)
  return endpoint
}

interface Work extends WorkerRequest {
  cwd: string
  env: NodeJS.ProcessEnv
  runs: SandboxedRuns
}

/** Handles one pass by running the command. Errors (E011, E013, E014, E021) are thrown without a stack, which would only show this program. */
async function workOn(pass: Pass, work: Work, log: WorkLog): Promise<HandlerResult> {
  try {
    return await runCommand(pass, work, log)
  } catch (error) {
    if (error instanceof PassOverError) delete error.stack
    throw error
  }
}

async function runCommand(pass: Pass, work: Work, log: WorkLog): Promise<HandlerResult> {
  log.began(pass)
  const { rights, limits } = pass
  const { end, broke } = await work.runs.run(
    {
      command: work.command,
      input: `${JSON.stringify(requestOf(pass))}\n`,
      env: (enforced) => ({ ...work.env, ...passEnvironment(pass, enforced) }),
      cwd: work.cwd,
      signal: pass.signal,
      kill_after_ms: work.kill_after_ms,
      max_output_bytes: MAX_OUTPUT,
      onStderr: (line) => log.said(pass, line),
    },
    { read_only: !rights.can_modify_files, no_network: rights.constraints.includes('no_external_calls'), memory_mb: limits.max_memory_mb },
  )
  if (broke) throw broke
  if (pass.signal.aborted) throw pass.signal.reason
  const outcome = parseWorkOutput(end)
  if (outcome.kind === 'output') return outcome.output
  const hint = rights.can_modify_files ? undefined : readOnlyHint(end)
  if (hint === undefined) throw outcome.error
  const { code, message, context } = outcome.error
  throw new PassOverError(code, `${message.trimEnd()} (${hint})`, context)
}

/** Builds the PassOverRequest that the command reads on stdin. */
function requestOf(pass: Pass): Record<string, unknown> {
  return {
    id: pass.id,
    originating_agent_id: pass.originator,
    subagent_id: pass.subagent,
    reason: pass.reason,
    priority: pass.priority,
    timeout_ms: pass.timeout_ms,
    return_required: true,
    constraints: pass.rights.constraints,
    rights: pass.rights,
    ...(pass.expected_output_type === undefined ? {} : { expected_output_type: pass.expected_output_type }),
    work_context: pass.context,
  }
}

/** Returns the path of a command's program, so that a misspelled one is refused before the first pass. Throws CliFailure E042 if there is none. */
export function requireProgram(context: Pick<Context, 'env' | 'directory'>, { command: [name = ''] }: WorkerRequest): string {
  const program = findProgram(name, context)
  if (program) return program
  throw usage(`command not found: ${name}`, 'the command after -- runs without a shell; to use pipes or shell syntax: sh -c "…"')
}

function findProgram(name: string, { env, directory }: Pick<Context, 'env' | 'directory'>): string | undefined {
  if (name.includes('/') || isAbsolute(name)) return isProgram(resolve(directory, name)) ? resolve(directory, name) : undefined
  for (const folder of (env.PATH ?? '').split(delimiter)) {
    for (const suffix of process.platform === 'win32' ? ['.exe', '.cmd', ''] : ['']) {
      if (folder && isProgram(join(folder, name + suffix))) return join(folder, name + suffix)
    }
  }
  return undefined
}
