import { relative } from 'node:path'
import type { Bus } from '@passover/bus'
import { count, decide, findPass, renderOutput, renderTimeline, showProgress } from '@passover/cli'
import { modificationDigest } from '@passover/core'
import { type FileModificationArtifact, sha256 } from '@passover/schemas'
import type { Agent, PassHandle, WorkContext, WorkOutput } from '@passover/sdk'
import { type Choice, choose } from './approve.js'
import { type Build, build } from './checker.js'
import type { Stage } from './stage.js'
import { ROOT, readProject } from './workspace.js'

/** Who and what takes part in the Alice → Audit → Alice cycle. */
export interface Cycle {
  stage: Stage
  alice: Agent
  /** Connected as the person at the terminal. */
  bus: Bus
  /** The copy of the project that is built and mended. */
  directory: string
  signal: AbortSignal
}

const TIMEOUT_MS = 60_000
const PROMPT = 'Review and fix the build errors'
const AUDIT_SEEN_MS = 5_000

/** The whole cycle. Resolves to the pass's id; throws what stands in its way. */
export async function runCycle(cycle: Cycle): Promise<string> {
  const { stage, directory } = cycle
  stage.step(`Alice builds the project (${relative(ROOT, directory)})`)
  const before = await build(directory, cycle.signal)
  tellBuild(stage, before)

  stage.step('Alice passes the errors over to audit, and waits')
  const { handle, output } = await passOver(cycle, before)

  stage.step('Audit has returned')
  stage.detail(renderOutput(withoutKnown(output, before), stage.terminal))

  stage.step(`${cycle.bus.identity} decides on each change`)
  const choices = await choose(stage, modificationsOf(output))
  await record(cycle, handle.id, choices)

  stage.step('Alice applies what was approved')
  const wrote = await apply(cycle, output, choices)

  stage.step('Alice builds again')
  const after = await build(directory, cycle.signal)
  tellBuild(stage, after)
  stage.detail(`${count(before.diagnostics.length, 'error')} before, ${after.diagnostics.length} now.`)

  stage.step('The audit trail of this pass')
  await trail(cycle, handle.id, wrote ? 'applied' : 'decision')
  return handle.id
}

function tellBuild(stage: Stage, { ok, diagnostics, ms }: Build): void {
  for (const { path, line, column, code, message } of diagnostics)
    stage.detail(`${path}:${line}:${column} ${stage.terminal.colors.red(code)} ${message}`)
  const files = new Set(diagnostics.map(({ path }) => path)).size
  if (ok) stage.done('the build is clean', ms)
  else stage.failed(`${count(diagnostics.length, 'error')} in ${count(files, 'file')}`, ms)
}

async function passOver(
  { stage, alice, bus, directory, signal }: Cycle,
  found: Build,
): Promise<{ handle: PassHandle; output: WorkOutput }> {
  const began = performance.now()
  const handle = alice.passOver({
    subagent: 'audit',
    reason: 'validate_approach_and_review',
    return_required: true,
    expected_output_type: 'mixed',
    work_context: workContext(directory, found),
    // What audit finds is expected to be severe: Alice wants it back all the same.
    override: { timeout_ms: TIMEOUT_MS, auto_return: true },
    signal,
  })
  await handle.stored
  stage.detail(`id ${handle.id}`)
  // Where a person must approve the start, this prints the command that does.
  const following = showProgress(bus, { id: handle.id, from: alice.name, to: 'audit', progress: stage.terminal.progress() })
  const output = await handle.result().finally(() => following.stop())
  stage.done(`${output.status}, ${output.summary.decision ?? 'no decision'}: ${contents(output)}`, performance.now() - began)
  return { handle, output }
}

/** What audit needs: sources, build configuration, the errors, and what was said. */
function workContext(directory: string, { text, diagnostics, ms }: Build): Partial<WorkContext> & { objective: string } {
  const now = Date.now()
  return {
    directory,
    objective: 'Find out why the project does not build, and propose corrections',
    background: 'The build was clean until the last merge.',
    files: readProject(directory),
    messages: [
      { id: 'message-1', role: 'user', timestamp: now - 2, parts: [{ id: 'part-1', type: 'text', text: PROMPT }] },
      {
        id: 'message-2',
        role: 'assistant',
        agent_name: 'alice',
        timestamp: now - 1,
        parts: [{ id: 'part-2', type: 'text', text: `The build has ${count(diagnostics.length, 'error')}. I pass it over to audit.` }],
      },
    ],
    tool_results: [
      {
        tool_name: 'build',
        call_id: 'call-1',
        status: 'error',
        input: { command: 'tsc --project . --noEmit' },
        output: text,
        error: `${count(diagnostics.length, 'error')} in ${Math.round(ms)} ms`,
        timestamp: now,
      },
    ],
    errors: diagnostics.map(({ path, line, column, code, message }) => ({ type: code, message, context: `${path}:${line}:${column}` })),
    todos: [{ content: 'Make the build pass', status: 'in_progress' }],
  }
}

/** `3 changes, 8 findings` */
export function contents({ artifacts }: Pick<WorkOutput, 'artifacts'>): string {
  const changes = artifacts.filter(({ type }) => type === 'file_modification').length
  const findings = artifacts.filter(({ type }) => type === 'finding').length
  const rest = artifacts.length - changes - findings
  return `${count(changes, 'change')}, ${count(findings, 'finding')}${rest > 0 ? `, ${rest} more` : ''}`
}

/** The output without the findings that the build has told already. */
export function withoutKnown(output: WorkOutput, { diagnostics }: Pick<Build, 'diagnostics'>): WorkOutput {
  const told = new Set(diagnostics.map(({ path, line, code, message }) => `${path}:${line} ${code} ${message}`))
  const known = (artifact: WorkOutput['artifacts'][number]) =>
    artifact.type === 'finding' && told.has(`${artifact.location?.path}:${artifact.location?.line} ${artifact.message}`)
  const findings = output.summary.findings.filter((text) => !diagnostics.some(({ message }) => text.includes(message)))
  return { ...output, artifacts: output.artifacts.filter((artifact) => !known(artifact)), summary: { ...output.summary, findings } }
}

function modificationsOf(output: WorkOutput): FileModificationArtifact[] {
  return output.artifacts.filter((artifact) => artifact.type === 'file_modification')
}

/** The person's decision, guarded and bound to the return that was shown; every modification by its digest. */
async function record({ stage, bus }: Cycle, id: string, choices: Choice[]): Promise<void> {
  const pass = await findPass(bus, { id, from: 'alice', to: 'audit' })
  const shown = pass.return ? sha256(pass.return.data) : (pass.digest ?? '')
  const modifications = Object.fromEntries(
    choices.map(({ modification, taken }) => [modificationDigest(modification), taken ? ('taken' as const) : ('rejected' as const)]),
  )
  const some = choices.some(({ taken }) => taken)
  const decided = await decide(
    bus,
    { key: pass.key, item: 'apply', verdict: some ? 'approve' : 'deny', digest: shown, modifications },
    async () => true,
  )
  stage.line()
  if (decided.kind === 'lost') throw new Error(`${decided.standing.person} decided about these changes before you`)
  stage.done(
    `recorded as ${bus.identity}: ${choices.filter(({ taken }) => taken).length} approved, ${choices.filter(({ taken }) => !taken).length} rejected`,
  )
}

/** Writes exactly what the person took: the decision is read from the audit, not from here. Nothing taken is a denial, and not asked for. */
async function apply({ stage, alice, directory }: Cycle, output: WorkOutput, choices: Choice[]): Promise<boolean> {
  const { colors } = stage.terminal
  const left = (path: string) => stage.detail(`${colors.dim('–')} left ${path} as it is`)
  if (!choices.some(({ taken }) => taken)) {
    for (const { modification } of choices) left(modification.path)
    return false
  }
  const { applied, rejected, conflicts, held_back } = await alice.apply(output, { directory })
  for (const path of applied) stage.done(`wrote ${path}`)
  for (const { path, why } of conflicts) stage.detail(`${colors.red('✗')} ${path}: ${why}`)
  for (const path of held_back) stage.detail(`${colors.dim('–')} ${path} waits: changes are applied together or not at all`)
  for (const path of rejected) left(path)
  return applied.length > 0
}

/** Reads the pass back from the audit, once it has seen the last that was stored. */
async function trail({ stage, bus }: Cycle, id: string, last: 'applied' | 'decision'): Promise<void> {
  const deadline = Date.now() + AUDIT_SEEN_MS
  for (;;) {
    const pass = await findPass(bus, { id, from: 'alice', to: 'audit' }, { history: true })
    const history = pass.history ?? []
    if (history.some(({ kind }) => kind === last) || Date.now() > deadline) {
      stage.detail(renderTimeline(history, stage.terminal))
      stage.detail(`status ${pass.status}, ${count(pass.decisions.length, 'decision')}`)
      return
    }
    await new Promise((again) => setTimeout(again, 50))
  }
}
