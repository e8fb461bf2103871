import { WorkError } from '@passover/sdk'
import { cut } from '../text.js'
import { Abilities } from './abilities.js'
import { type Cgroup, cgroupParent, makeCgroup } from './cgroup.js'
import { type Attending, type ChildEnd, type ChildOptions, runChild } from './child.js'
import { type Hold, launchOf, passesShell, type Wants } from './confine.js'
import { changesBetween, fingerprint } from './fingerprint.js'
import { Guardian } from './guardian.js'
import { type Exceeded, MemoryWatch } from './memory-watch.js'

const MB = 1024 * 1024
/** A process may ask for so much more than it may hold, since much that is asked for is never used. */
const ASKED_TIMES = 4
const ASKED_MORE = 1024 * MB
const FILES_SHOWN = 20
const RAW_SHOWN = 65_536

/** What a pass wants of the system while its command runs. */
export interface Bounds extends Wants {
  memory_mb?: number | undefined
}

/** What the command is told of it. */
export interface Held {
  /** Of the constraints, those that hold whatever the command does. */
  enforced: string[]
}

export interface HeldEnd {
  end: ChildEnd
  /** What it did that it must not: E013, E014. */
  broke: WorkError | undefined
  enforced: string[]
}

type Command = Omit<ChildOptions, 'attend' | 'env' | 'gated'> & { env: (held: Held) => NodeJS.ProcessEnv }

/** Runs commands under what their passes may do, as far as this system can see to it; says once what it cannot. */
export class HeldRuns {
  readonly #directory: string
  readonly #abilities: Abilities
  readonly #memory = new MemoryWatch()
  readonly #guardian = new Guardian()
  readonly #note: (line: string) => void
  readonly #noted = new Set<string>()
  readonly #cgroups = cgroupParent()
  #count = 0

  constructor(directory: string, env: NodeJS.ProcessEnv, note: (line: string) => void) {
    this.#directory = directory
    this.#abilities = new Abilities(directory, env)
    this.#note = note
  }

  async run(command: Command, bounds: Bounds): Promise<HeldEnd> {
    const hold = await this.#abilities.hold(bounds)
    this.#tellLimits(bounds, hold)
    const enforced = [...(hold?.read_only ? ['read_only'] : []), ...(hold?.no_network ? ['no_external_calls'] : [])]
    const watched = bounds.read_only && !hold?.read_only
    const before = watched ? await fingerprint(this.#directory) : undefined
    const { end, exceeded } = await this.#runLimited(command, { bounds, hold, enforced })
    const changed = before ? changesBetween(before, await fingerprint(this.#directory)) : []
    return { end, enforced, broke: exceeded ?? (changed.length > 0 ? changedFiles(changed, end) : undefined) }
  }

  async #runLimited(command: Command, held: { bounds: Bounds; hold: Hold | undefined; enforced: string[] }) {
    const { bounds, hold, enforced } = held
    const limit_bytes = bounds.memory_mb === undefined ? undefined : bounds.memory_mb * MB
    const cgroup = limit_bytes === undefined ? undefined : this.#cgroup(limit_bytes)
    let exceeded: Exceeded | undefined
    const attend = (leader: number): Attending => {
      const guarded = this.#guardian.guard(leader)
      const watched =
        limit_bytes === undefined || cgroup ? [] : [this.#memory.watch({ leader, limit_bytes, onExceeded: (by) => (exceeded = by) })]
      return { ready: guarded.told, ends: [guarded, ...watched] }
    }
    const env = command.env({ enforced })
    const gated = (await this.#guardian.begin()) && passesShell(env)
    const line = launchOf({
      command: command.command,
      directory: this.#directory,
      hold,
      tied: await this.#abilities.tied(),
      gated,
      cgroup: cgroup?.path,
      data_bytes: limit_bytes === undefined || process.platform !== 'linux' ? undefined : limit_bytes * ASKED_TIMES + ASKED_MORE,
    })
    try {
      const end = await runChild({ ...command, command: line, env, attend, gated })
      if (limit_bytes !== undefined && cgroup?.exceeded().killed) {
        exceeded = { limit_bytes, measured_bytes: cgroup.exceeded().peak_bytes ?? limit_bytes }
      }
      return { end, exceeded: exceeded && tooMuchMemory(exceeded) }
    } finally {
      await cgroup?.end()
    }
  }

  #cgroup(limit_bytes: number): Cgroup | undefined {
    this.#count += 1
    return this.#cgroups === undefined ? undefined : makeCgroup(this.#cgroups, `passover-${process.pid}-${this.#count}`, limit_bytes)
  }

  /** Each once a worker: what is not held is only told. */
  #tellLimits(bounds: Bounds, hold: Hold | undefined): void {
    if (bounds.read_only && hold?.read_only) this.#once('The directory is read-only for the command: its passes may not modify files.')
    if (bounds.read_only && !hold?.read_only) {
      this.#once('The directory cannot be made read-only here: a command that changes its files ends its pass with E013.')
    }
    if (bounds.no_network && !hold?.no_network) {
      this.#once('no_external_calls cannot be enforced here: the command is told by PASSOVER_CONSTRAINTS, and trusted.')
    }
    if (bounds.memory_mb !== undefined && process.platform !== 'linux') {
      this.#once('max_memory_mb cannot be enforced here: only Linux tells what a command holds.')
    }
  }

  #once(line: string): void {
    if (this.#noted.has(line)) return
    this.#noted.add(line)
    this.#note(line)
  }
}

function tooMuchMemory({ limit_bytes, measured_bytes }: Exceeded): WorkError {
  const [limit_mb, measured_mb] = [limit_bytes / MB, Math.ceil(measured_bytes / MB)]
  const details = { field: 'max_memory_mb', limit_mb, measured_mb }
  return new WorkError('E014', `the command held ${measured_mb} MB of memory, and may hold ${limit_mb}`, details)
}

function changedFiles(files: string[], end: ChildEnd): WorkError {
  const shown = files.slice(0, FILES_SHOWN)
  const more = files.length > shown.length ? ` and ${files.length - shown.length} more` : ''
  return new WorkError('E013', `this pass may not modify files, and these changed while its command ran: ${shown.join(', ')}${more}`, {
    field: 'can_modify_files',
    files: shown,
    changed: files.length,
    raw_output: cut(end.stdout, RAW_SHOWN),
  })
}
