import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Bus, openBus } from '@passover/bus'
import { type RunningServer, startServer } from '@passover/bus/server'
import { type Measured, type Role, startRole } from './harness.js'

const PARTS = ['dispatcher', 'audit', 'worker', 'originator'] as const
const MIB = 1024 * 1024

/** A server and the four processes of an installation, with a short id window in all of them. */
export class FlatWorld implements AsyncDisposable {
  private constructor(
    private readonly folder: string,
    private readonly server: RunningServer,
    private readonly bus: Bus,
    private readonly roles: ReadonlyMap<string, Role>,
  ) {}

  static async start(id_window_ms: number): Promise<FlatWorld> {
    process.env.PASSOVER_ID_WINDOW_MS = String(id_window_ms)
    const folder = mkdtempSync(join(tmpdir(), 'passover-flat-'))
    const server = await startServer({ dir: folder })
    const roles = new Map<string, Role>()
    for (const role of PARTS) roles.set(role, await startRole('./product.js', { role, servers: server.url }))
    return new FlatWorld(folder, server, await openBus({ servers: [server.url], identity: 'passover' }), roles)
  }

  /** So many passes at this rate (a second): what saturates two processors says nothing about what is kept. */
  async run(passes: number, rate: number): Promise<void> {
    const since = performance.now()
    for (let done = 0; done < passes; ) {
      const batch = Math.min(Math.ceil(rate / 4), passes - done)
      await this.roles.get('originator')?.ask<Measured>({ passes: batch, inflight: 64 })
      done += batch
      await new Promise((paced) => setTimeout(paced, Math.max(0, (done / rate) * 1000 - (performance.now() - since))))
    }
  }

  /** MiB, but for what is counted. */
  async look(): Promise<Record<string, number>> {
    const seen: Record<string, number> = {}
    for (const [name, role] of this.roles) seen[name] = (await role.usage()).rss / MIB
    seen.server = residentOf(this.server.pid) / MIB
    const { stream, buckets } = await this.bus.inspect()
    seen['stream messages'] = stream?.messages ?? 0
    seen['stream MiB'] = (stream?.bytes ?? 0) / MIB
    for (const name of ['passes', 'archive', 'acknowledged']) {
      for (const one of buckets.filter((bucket) => bucket.name === name && bucket.messages > 0)) {
        seen[`${one.kind === 'kv' ? 'records' : 'objects'} ${name} MiB`] = one.bytes / MIB
      }
    }
    return seen
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.bus[Symbol.asyncDispose]()
    for (const role of this.roles.values()) await role[Symbol.asyncDispose]()
    await this.server.stop()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** Resident memory of a process that is not ours (Linux; 0 elsewhere). */
function residentOf(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024
  } catch {
    return 0
  }
}
