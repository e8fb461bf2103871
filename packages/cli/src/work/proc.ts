import { readdirSync, readFileSync } from 'node:fs'

/** A process as the system lists it. */
export interface Listed {
  pid: number
  parent: number
  group: number
  session: number
}

/** Every process; [] where there is no /proc. */
export function processes(): Listed[] {
  const found: Listed[] = []
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
export function familyOf(leader: number, all: readonly Listed[]): number[] {
  const family = new Set<number>()
  for (const { pid, group, session } of all) if (pid === leader || group === leader || session === leader) family.add(pid)
  for (let size = -1; size !== family.size; ) {
    size = family.size
    for (const { pid, parent } of all) if (family.has(parent)) family.add(pid)
  }
  return [...family]
}

/** Bytes that a process holds in memory and swap; of what it shares with others its part, where `exactly`. */
export function memoryOf(pid: number, exactly: boolean): number {
  const text = (exactly ? read(`/proc/${pid}/smaps_rollup`) : undefined) ?? read(`/proc/${pid}/status`)
  if (!text) return 0
  let kilobytes = 0
  for (const [, , size] of text.matchAll(/^(VmRSS|VmSwap|Pss|SwapPss):\s+(\d+) kB/gm)) kilobytes += Number(size)
  return kilobytes * 1024
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
