import { accessSync, constants, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const ROOT = '/sys/fs/cgroup'

/** A cgroup (v2) of one command, with its limit. */
export interface Cgroup {
  readonly path: string
  /** Whether the kernel killed for want of memory, and the most that was held. */
  exceeded(): { killed: boolean; peak_bytes: number | undefined }
  /** Kills what is left in it and removes it. */
  end(): Promise<void>
}

/** Where a worker may make groups with a memory limit: beside its own group, or below it. Undefined: nowhere. */
export function cgroupParent(root = ROOT, own = ownGroup()): string | undefined {
  if (own === undefined) return undefined
  for (const group of [...new Set([dirname(own), own])]) {
    const path = join(root, group)
    try {
      if (!readFileSync(join(path, 'cgroup.subtree_control'), 'utf8').split(/\s/).includes('memory')) continue
      accessSync(join(path, 'cgroup.procs'), constants.W_OK)
      accessSync(path, constants.W_OK)
      return path
    } catch {
      // Not this one.
    }
  }
  return undefined
}

/** Makes a group under a parent that was found. Undefined: it could not be made, or takes no limit. */
export function makeCgroup(parent: string, name: string, limit_bytes: number): Cgroup | undefined {
  const path = join(parent, name)
  try {
    mkdirSync(path)
    writeFileSync(join(path, 'memory.max'), String(limit_bytes))
    for (const [file, value] of [
      ['memory.swap.max', '0'],
      ['memory.oom.group', '1'],
    ] as const) {
      try {
        writeFileSync(join(path, file), value)
      } catch {
        // A kernel without swap accounting has no such file.
      }
    }
  } catch {
    remove(path)
    return undefined
  }
  return { path, exceeded: () => exceededIn(path), end: () => endOf(path) }
}

function exceededIn(path: string): { killed: boolean; peak_bytes: number | undefined } {
  const kills = /^oom_kill (\d+)/m.exec(text(join(path, 'memory.events')) ?? '')?.[1]
  const peak = Number(text(join(path, 'memory.peak')) ?? Number.NaN)
  return { killed: Number(kills ?? 0) > 0, peak_bytes: Number.isFinite(peak) ? peak : undefined }
}

async function endOf(path: string): Promise<void> {
  try {
    writeFileSync(join(path, 'cgroup.kill'), '1')
  } catch {
    // Older than Linux 5.14: the process group was killed already.
  }
  for (let tries = 0; tries < 50 && !remove(path); tries++) await new Promise((again) => setTimeout(again, 20))
}

function remove(path: string): boolean {
  try {
    rmdirSync(path)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT'
  }
}

function ownGroup(): string | undefined {
  return /^0::(\/.*)$/m.exec(text('/proc/self/cgroup') ?? '')?.[1]
}

function text(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
