import { readdirSync, readFileSync } from 'node:fs'

/** A process as /proc lists it. */
export interface ProcessEntry {
  pid: number
  parent: number
  group: number
  session: number
}

/** Lists all processes; returns [] without /proc. */
export function listProcesses(): ProcessEntry[] {
  const found: ProcessEntry[] = []
  for (const name of names()) {
    const stat = read(`/proc/${name}/stat`)
    // The program name is in brackets and may contain any character.
    const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
    if (!fields || fields[0] === 'Z') continue
    found.push({ pid: Number(name), parent: Number(fields[1]), group: Number(fields[2]), session: Number(fields[3]) })
  }
  return found
}

/** Returns the processes of a command: its group, its session, and their descendants. Pure. */
export function processFamily(leader: number, all: readonly ProcessEntry[]): number[] {
  const family = new Set<number>()
  for (const { pid, group, session } of all) if (pid === leader || group === leader || session === leader) family.add(pid)
  for (let size = -1; size !== family.size; ) {
    size = family.size
    for (const { pid, parent } of all) if (family.has(parent)) family.add(pid)
  }
  return [...family]
}

/** Bytes that a process uses in memory and swap. */
export interface ProcessMemory {
  own: number
  /** Shared memory: mapped files of /dev/shm, memfd and similar. */
  shared: number
}

const ROUGH = /^(RssAnon|RssFile|VmSwap|RssShmem):\s+(\d+) kB/gm
const EXACT = /^(Pss_Anon|Pss_File|SwapPss|Pss_Shmem):\s+(\d+) kB/gm

/** Reads the memory of a process. `exactly` divides shared memory among the processes that share it, which takes longer. */
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
