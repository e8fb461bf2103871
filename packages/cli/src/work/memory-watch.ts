import { familyOf, memoryOf, processes } from './proc.js'

const EVERY_MS = 50

export interface Exceeded {
  limit_bytes: number
  /** What was measured when it was killed. */
  measured_bytes: number
}

interface Watched {
  leader: number
  limit_bytes: number
  onExceeded(exceeded: Exceeded): void
}

/** Looks at what commands hold in memory, all their processes together, and kills those that hold too much. One look for all of them. */
export class MemoryWatch {
  readonly #watched = new Set<Watched>()
  #timer: NodeJS.Timeout | undefined

  /** Until it is disposed of. */
  watch(watched: Watched): Disposable {
    this.#watched.add(watched)
    this.#timer ??= setInterval(() => this.#look(), EVERY_MS)
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
    const all = processes()
    for (const watched of this.#watched) {
      const family = familyOf(watched.leader, all)
      const measured_bytes = measure(family, watched.limit_bytes)
      if (measured_bytes <= watched.limit_bytes) continue
      this.#watched.delete(watched)
      for (const pid of family) kill(pid)
      watched.onExceeded({ limit_bytes: watched.limit_bytes, measured_bytes })
    }
  }
}

/** What is shared counts once: that is looked at only where counting it for each would be too much. */
function measure(family: readonly number[], limit: number): number {
  const sum = (exactly: boolean) => family.reduce((bytes, pid) => bytes + memoryOf(pid, exactly), 0)
  const rough = sum(false)
  return rough <= limit ? rough : sum(true)
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}
