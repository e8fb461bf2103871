import { spawnSync } from 'node:child_process'
import { accessSync, constants, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const ROOT = '/sys/fs/cgroup'
const NAME = /^passover-(\d+)-/
const PROBE_BYTES = 2 ** 30

/** A cgroup in which a worker can create groups with a memory limit. */
export interface CgroupParent {
  version: 1 | 2
  path: string
}

/** The cgroup of one command. */
export interface Cgroup {
  readonly version: 1 | 2
  readonly path: string
  /** Returns whether the kernel killed a process because of the limit, and the peak memory use. */
  exceeded(): { killed: boolean; peak_bytes: number | undefined }
  /** Kills the remaining processes and removes the group. */
  end(): Promise<void>
}

/**
 * Finds where groups can be created: with cgroup v2 beside the worker's own group or below it, with v1 below it. Tests the place with a group and a
 * process.
 *
 * @returns undefined if the kernel, the container or the permissions do not allow it.
 */
export function cgroupParent(root = ROOT, own = text('/proc/self/cgroup') ?? ''): CgroupParent | undefined {
  const found = candidates(root, own).find(canLimit)
  if (found) removeAbandoned(found.path)
  return found
}

/** Creates a group, optionally with a memory limit. Returns `undefined` if it cannot be created or does not accept the limit. */
export function createCgroup({ version, path: parent }: CgroupParent, name: string, limit_bytes?: number): Cgroup | undefined {
  const path = join(parent, name)
  try {
    mkdirSync(path)
    if (limit_bytes !== undefined) limitMemory(version, path, String(limit_bytes))
  } catch {
    remove(path)
    return undefined
  }
  const exceeded = version === 2 ? exceededV2 : exceededV1
  return { version, path, exceeded: () => exceeded(path), end: () => endOf(path) }
}

function candidates(root: string, own: string): CgroupParent[] {
  const unified = /^0::(\/.*)$/m.exec(own)?.[1]
  const memory = /^\d+:(?:[^:\n]*,)?memory(?:,[^:\n]*)?:(\/.*)$/m.exec(own)?.[1]
  const second = unified === undefined ? [] : [...new Set([dirname(unified), unified])].map((group) => join(root, group))
  return [
    ...second.filter(delegatesMemory).map((path) => ({ version: 2 as const, path })),
    ...(memory === undefined ? [] : [{ version: 1 as const, path: join(root, 'memory', memory) }]),
  ]
}

function delegatesMemory(path: string): boolean {
  return text(join(path, 'cgroup.subtree_control'))?.split(/\s/).includes('memory') ?? false
}

function canLimit(parent: CgroupParent): boolean {
  try {
    accessSync(parent.path, constants.W_OK)
  } catch {
    return false
  }
  const group = createCgroup(parent, `passover-${process.pid}-probe`, PROBE_BYTES)
  if (!group) return false
  const { status } = spawnSync('sh', ['-c', 'echo $$ > "$1/cgroup.procs"', 'passover', group.path], { stdio: 'ignore' })
  remove(group.path)
  return status === 0
}

/** Sets the limit, or throws. If the kernel has a setting for swap, swap is counted too or disabled. */
function limitMemory(version: 1 | 2, path: string, limit: string): void {
  writeFileSync(join(path, version === 2 ? 'memory.max' : 'memory.limit_in_bytes'), limit)
  const more =
    version === 2 ? { 'memory.swap.max': '0', 'memory.oom.group': '1' } : { 'memory.memsw.limit_in_bytes': limit, 'memory.swappiness': '0' }
  for (const [file, value] of Object.entries(more)) {
    try {
      writeFileSync(join(path, file), value)
    } catch {
      // A kernel without swap accounting has no such file.
    }
  }
}

function exceededV2(path: string): { killed: boolean; peak_bytes: number | undefined } {
  return { killed: counter(path, 'memory.events', /^oom_kill (\d+)/m) > 0, peak_bytes: number(path, 'memory.peak') }
}

function exceededV1(path: string): { killed: boolean; peak_bytes: number | undefined } {
  return { killed: counter(path, 'memory.oom_control', /^oom_kill (\d+)/m) > 0, peak_bytes: number(path, 'memory.max_usage_in_bytes') }
}

function counter(path: string, file: string, pattern: RegExp): number {
  return Number(pattern.exec(text(join(path, file)) ?? '')?.[1] ?? 0)
}

function number(path: string, file: string): number | undefined {
  const value = Number(text(join(path, file)) ?? Number.NaN)
  return Number.isFinite(value) ? value : undefined
}

async function endOf(path: string): Promise<void> {
  for (let tries = 0; tries < 50 && !remove(path); tries++) {
    killAll(path)
    await new Promise((again) => setTimeout(again, 20))
  }
}

/** Kills all processes: at once with cgroup v2 and Linux 5.14 or newer, otherwise one by one. The caller repeats it until the group is empty. */
function killAll(path: string): void {
  try {
    writeFileSync(join(path, 'cgroup.kill'), '1', { flag: 'r+' })
    return
  } catch {
    // The kernel has no such file.
  }
  for (const pid of (text(join(path, 'cgroup.procs')) ?? '').split('\n').filter(Boolean)) {
    try {
      process.kill(Number(pid), 'SIGKILL')
    } catch {
      // The process has ended.
    }
  }
}

/** Removes the groups of workers that were killed. */
function removeAbandoned(parent: string): void {
  for (const name of readdirSync(parent)) {
    const worker = NAME.exec(name)?.[1]
    if (worker !== undefined && text(`/proc/${worker}/stat`) === undefined) remove(join(parent, name))
  }
}

function remove(path: string): boolean {
  try {
    rmdirSync(path)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT'
  }
}

function text(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
