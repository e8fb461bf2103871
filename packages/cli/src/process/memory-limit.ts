import { statfsSync } from 'node:fs'
import type { Cgroup } from './cgroup.js'
import { listProcesses, processFamily, readMemory } from './proc.js'

const CHECK_INTERVAL_MS = 50

export interface MemoryExceeded {
  limit_bytes: number
  /** Bytes measured when the command was killed. */
  measured_bytes: number
}

interface Watched {
  leader: number
  limit_bytes: number
  /** Cgroup that measures the memory; then only its kills are checked. */
  cgroup?: Cgroup | undefined
  /** True if the command has its own /dev/shm, whose files count. */
  namespaced: boolean
  onExceeded(exceeded: MemoryExceeded): void
}

/**
 * Kills commands whose processes together use too much memory. With a cgroup the kernel measures, but version 1 kills only one process, so the others
 * are killed here. Without one, /proc is polled for all commands at once.
 */
export class MemoryLimit {
  readonly #watched = new Set<Watched>()
  #timer: NodeJS.Timeout | undefined

  /** Watches a command until the result is disposed of. */
  watch(watched: Watched): Disposable {
    this.#watched.add(watched)
    this.#timer ??= setInterval(() => this.#look(), CHECK_INTERVAL_MS)
    return {
      [Symbol.dispose]: () => {
        this.#watched.delete(watched)
        if (this.#watched.size > 0) return
        clearInterval(this.#timer)
        this.#timer = undefined
      },
    }
  }

  #look(): void {
    const all = [...this.#watched].some(({ cgroup }) => !cgroup) ? listProcesses() : []
    for (const watched of this.#watched) {
      const { leader, limit_bytes, cgroup } = watched
      const family = cgroup ? [-leader] : processFamily(leader, all)
      const measured_bytes = cgroup ? killedAt(cgroup, limit_bytes) : measure(family, watched)
      if (measured_bytes === undefined) continue
      this.#watched.delete(watched)
      for (const pid of family) kill(pid)
      watched.onExceeded({ limit_bytes, measured_bytes })
    }
  }
}

/** Returns the peak memory of a group in which the kernel killed a process. */
function killedAt(cgroup: Cgroup, limit_bytes: number): number | undefined {
  const { killed, peak_bytes } = cgroup.exceeded()
  return killed ? (peak_bytes ?? limit_bytes) : undefined
}

/** Returns the bytes in use if they exceed the limit. Reads exact shares of shared memory, which is slow, only if the rough sum exceeds the limit. */
function measure(family: readonly number[], { leader, limit_bytes, namespaced }: Watched): number | undefined {
  const files = namespaced ? sharedFiles(family.find((pid) => pid !== leader)) : 0
  const sum = (exactly: boolean) => {
    const parts = family.map((pid) => readMemory(pid, exactly))
    const total = (kind: 'own' | 'shared') => parts.reduce((bytes, part) => bytes + part[kind], 0)
    // A mapped file in /dev/shm counts in both, so the larger value is taken.
    return total('own') + Math.max(total('shared'), files)
  }
  if (sum(false) <= limit_bytes) return undefined
  const measured = sum(true)
  return measured > limit_bytes ? measured : undefined
}

/** Returns the bytes of files in the /dev/shm that a process sees. */
function sharedFiles(pid: number | undefined): number {
  try {
    const { blocks, bfree, bsize } = statfsSync(`/proc/${pid}/root/dev/shm`)
    return (blocks - bfree) * bsize
  } catch {
    return 0
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // The process has ended.
  }
}
