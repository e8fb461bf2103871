import { readdirSync, readFileSync } from 'node:fs'

/** A process as the system lists it. */
export interface ProcessEntry {
  pid: number
  parent: number
  group: number
  session: number
}

/** Every process; [] where there is no /proc. */
export function listProcesses(): ProcessEntry[] {
  const found: ProcessEntry[] = []
  for (const name of names()) {
    const stat = read(`/proc/${name}/stat`)
    // The program's name stands in brackets and may hold anything.
    const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
    if (!fields || fields[0] === 'Z') continue
    found.push({ pid: Number(name), parent: Number(fields[1]), group: Number(fields[2]), session: Number(fields[3]) })
  }
  return found
}

/** The processes of a command: its group, its session, and what those started. Pure. */
export function processFamily(leader: number, all: readonly ProcessEntry[]): number[] {
  const family = new Set<number>()
  for (const { pid, group, session } of all) if (pid === leader || group === leader || session === leader) family.add(pid)
  for (let size = -1; size !== family.size; ) {
    size = family.size
    for (const { pid, parent } of all) if (family.has(parent)) family.add(pid)
  }
  return [...family]
}

/** Bytes that a process holds in memory and swap. */
export interface ProcessMemory {
  own: number
  /** Shared memory: mapped files of /dev/shm, memfd and the like. */
  shared: number
}

const ROUGH = /^(RssAnon|RssFile|VmSwap|RssShmem):\s+(\d+) kB/gm
const EXACT = /^(Pss_Anon|Pss_File|SwapPss|Pss_Shmem):\s+(\d+) kB/gm

/** Reads the memory of a process. `exactly`: divides what it shares with other processes among them, which takes longer. */
export function readMemory(pid: number, exactly: boolean): ProcessMemory {
  const rollup = exactly ? read(`/proc/${pid}/smaps_rollup`) : undefined
  const text = rollup ?? read(`/proc/${pid}/status`)
  const memory: ProcessMemory = { own: 0, shared: 0 }
  for (const [, name = '', size] of (text ?? '').matchAll(rollup === undefined ? ROUGH : EXACT)) {
    memory[name.endsWith('Shmem') ? 'shared' : 'own'] += Number(size) * 1024
  }
  return memory
}

function names(): string[] {
  try {
    return readdirSync('/proc').filter((name) => name >= '0' && name <= ':')
  } catch {
    return []
  }
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
