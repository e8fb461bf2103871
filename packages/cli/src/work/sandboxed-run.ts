import { WorkError } from '@passover/sdk'
import { type Cgroup, createCgroup } from '../process/cgroup.js'
import { type ChildControl, type ChildEnd, type ChildOptions, runChild } from '../process/child-process.js'
import { ProcessGuardian } from '../process/guardian.js'
import { type MemoryExceeded, MemoryLimit } from '../process/memory-limit.js'
import { enforcedConstraints } from '../sandbox/guarantees.js'
import { launchCommand, passesShell } from '../sandbox/launch.js'
import type { Restrictions } from '../sandbox/mechanism.js'
import type { Sandbox } from '../sandbox/sandbox.js'
import { cut } from '../terminal/text.js'
import { changesBetween, fingerprint } from './file-fingerprint.js'

const MB = 1024 * 1024
/** Factor between RLIMIT_DATA and the memory limit, because runtimes reserve much more memory than they use. */
const RESERVED_MEMORY_FACTOR = 4
const RESERVED_MEMORY_EXTRA = 1024 * MB
const FILES_SHOWN = 20
const RAW_SHOWN = 65_536

/** Restrictions and limits of a pass. */
export interface ResourceLimits extends Restrictions {
  memory_mb?: number | undefined
}

export interface SandboxedRunEnd {
  end: ChildEnd
  /** Violation of a restriction or limit: E013 or E014. */
  broke: WorkError | undefined
}

type Command = Omit<ChildOptions, 'attend' | 'env' | 'gated' | 'filter' | 'shifted_signals'> & {
  /** Builds the environment, given the constraints that are enforced. */
  env: (enforced: string[]) => NodeJS.ProcessEnv
}

/** Runs commands in the sandbox of this machine, with the restrictions and limits of their passes. */
export class SandboxedRuns {
  readonly #sandbox: Sandbox
  readonly #memory = new MemoryLimit()
  readonly #guardian = new ProcessGuardian()
  #count = 0

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox
  }

  async run(command: Command, limits: ResourceLimits): Promise<SandboxedRunEnd> {
    const holds = enforcedConstraints(this.#sandbox.guarantees)
    const enforced = [
      ...(limits.read_only && holds.has('read_only') ? ['read_only'] : []),
      ...(limits.no_network && holds.has('no_external_calls') ? ['no_external_calls'] : []),
    ]
    const layout = this.#sandbox.layout()
    // Without a read-only mount, changes are detected afterwards.
    const isWatched = limits.read_only && this.#sandbox.mechanism.kind === 'none'
    // A Set, because an installation above the directory is in both lists.
    const watched = [...new Set([...layout.project, ...layout.own])]
    const before = isWatched ? await fingerprint(watched) : undefined
    const { end, exceeded } = await this.#runLimited(command, { limits, enforced, layout })
    const changed = before ? changesBetween(before, await fingerprint(watched)) : []
    return { end, broke: exceeded ?? (changed.length > 0 ? changedFiles(changed, end) : undefined) }
  }

  async #runLimited(command: Command, held: { limits: ResourceLimits; enforced: string[]; layout: ReturnType<Sandbox['layout']> }) {
    const { limits, enforced, layout } = held
    const { mechanism, tied } = this.#sandbox
    const limit_bytes = limits.memory_mb === undefined ? undefined : limits.memory_mb * MB
    const cgroup = this.#cgroup(limit_bytes)
    const measured = limit_bytes !== undefined && !cgroup && process.platform === 'linux'
    let exceeded: MemoryExceeded | undefined
    const attend = (leader: number): ChildControl => {
      const guarded = this.#guardian.guard(leader)
      const watch = (limit_bytes: number) =>
        this.#memory.watch({ leader, cgroup, limit_bytes, namespaced: mechanism.kind !== 'none', onExceeded: (by) => (exceeded = by) })
      return { ready: guarded.told, ends: [guarded, ...(limit_bytes === undefined ? [] : [watch(limit_bytes)])] }
    }
    // Otherwise git status would refresh the index, which counts as a change if the index is writable.
    const env = { ...command.env(enforced), ...(limits.read_only && { GIT_OPTIONAL_LOCKS: '0' }) }
    const gated = (await this.#guardian.begin()) && passesShell(env)
    const network = mechanism.kind !== 'none' && mechanism.network
    const line = launchCommand({
      command: command.command,
      mechanism,
      layout,
      read_only: limits.read_only,
      no_network: limits.no_network && network,
      tied,
      gated,
      cgroup: cgroup?.path,
      limited: limit_bytes !== undefined,
      tools: this.#sandbox.tools,
      ...(measured && { data_bytes: limit_bytes * RESERVED_MEMORY_FACTOR + RESERVED_MEMORY_EXTRA, shm_bytes: limit_bytes }),
    })
    const filter = mechanism.kind === 'bubblewrap' && limits.no_network ? mechanism.filter : undefined
    try {
      const end = await runChild({ ...command, command: line, env, attend, gated, filter, shifted_signals: mechanism.kind !== 'none' })
      if (limit_bytes !== undefined && cgroup) exceeded ??= exceededIn(cgroup, limit_bytes)
      return { end, exceeded: exceeded && tooMuchMemory(exceeded) }
    } finally {
      await cgroup?.end()
    }
  }

  /** Creates a cgroup for a memory limit, or to end processes that leave the process group if there is no PID namespace. */
  #cgroup(limit_bytes: number | undefined): Cgroup | undefined {
    const { cgroups, mechanism } = this.#sandbox
    if (!cgroups || (limit_bytes === undefined && mechanism.kind !== 'none')) return undefined
    this.#count += 1
    return createCgroup(cgroups, `passover-${process.pid}-${this.#count}`, limit_bytes)
  }
}

function exceededIn(cgroup: Cgroup, limit_bytes: number): MemoryExceeded | undefined {
  const { killed, peak_bytes } = cgroup.exceeded()
  return killed ? { limit_bytes, measured_bytes: peak_bytes ?? limit_bytes } : undefined
}

function tooMuchMemory({ limit_bytes, measured_bytes }: MemoryExceeded): WorkError {
  const [limit_mb, measured_mb] = [limit_bytes / MB, Math.ceil(measured_bytes / MB)]
  const details = { field: 'max_memory_mb', limit_mb, measured_mb }
  return new WorkError('E014', `the command used ${measured_mb} MB of memory; its limit is ${limit_mb} MB`, details)
}

function changedFiles(files: string[], end: ChildEnd): WorkError {
  const shown = files.slice(0, FILES_SHOWN)
  const more = files.length > shown.length ? ` and ${files.length - shown.length} more` : ''
  return new WorkError(
    'E013',
    `this pass may not modify files, but these files changed while its command ran: ${shown.join(', ')}${more}`,
    { field: 'can_modify_files', files: shown, changed: files.length, raw_output: cut(end.stdout, RAW_SHOWN) },
  )
}
