import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, sep } from 'node:path'
import type { AuditStats } from '@passover/audit'
import { type Bus, openBus } from '@passover/bus'
import { type RunningServer, startServer } from '@passover/bus/server'
import { type Measured, type Role, startRole } from './harness.js'

/** Whose passes come: those of agents through the whole product, or whole journals that a feeder writes past dispatcher and worker. */
export type FlatLoad = 'product' | 'feed'

const PARTS: Record<FlatLoad, readonly string[]> = { product: ['dispatcher', 'audit', 'worker', 'originator'], feed: ['audit', 'feeder'] }
const MIB = 1024 * 1024
const BLOCK = 512
const MOST_UNREAD = 20_000

/** A server and the processes of an installation, with a short id window in all of them. */
export class FlatWorld implements AsyncDisposable {
  private constructor(
    private readonly folder: string,
    private readonly server: RunningServer,
    private readonly bus: Bus,
    private readonly roles: ReadonlyMap<string, Role>,
  ) {}

  static async start({ id_window_ms, load }: { id_window_ms: number; load: FlatLoad }): Promise<FlatWorld> {
    process.env.PASSOVER_ID_WINDOW_MS = String(id_window_ms)
    const folder = mkdtempSync(join(tmpdir(), 'passover-flat-'))
    const server = await startServer({ dir: folder })
    const roles = new Map<string, Role>()
    for (const role of PARTS[load]) {
      const script = role === 'feeder' ? './feeder.js' : './product.js'
      roles.set(role, await startRole(script, { role, servers: server.url }))
    }
    return new FlatWorld(folder, server, await openBus({ servers: [server.url], identity: 'passover' }), roles)
  }

  /** So many passes at this rate (a second): what saturates two processors says nothing about what is kept. */
  async run(passes: number, rate: number): Promise<void> {
    const feeder = this.roles.get('feeder')
    if (feeder) return this.feed(feeder, passes, rate)
    const since = performance.now()
    for (let done = 0; done < passes; ) {
      const batch = Math.min(Math.ceil(rate / 4), passes - done)
      await this.roles.get('originator')?.ask<Measured>({ passes: batch, inflight: 64 })
      done += batch
      await new Promise((paced) => setTimeout(paced, Math.max(0, (done / rate) * 1000 - (performance.now() - since))))
    }
  }

  /** A second's passes at a time, and none while the audit is far behind: what is stored faster than it is read shows nothing but that. */
  private async feed(feeder: Role, passes: number, rate: number): Promise<void> {
    for (let done = 0; done < passes; ) {
      while ((await this.unread()) > MOST_UNREAD) await new Promise((later) => setTimeout(later, 100))
      const batch = Math.min(rate, passes - done)
      await feeder.ask({ passes: batch, rate })
      done += batch
    }
  }

  private async unread(): Promise<number> {
    return (await this.roles.get('audit')?.ask<AuditStats>({ stats: true }))?.lag ?? 0
  }

  /** MiB, but for what is counted. */
  async look(): Promise<Record<string, number>> {
    const seen: Record<string, number> = {}
    for (const [name, role] of this.roles) seen[name] = (await role.usage()).rss / MIB
    seen.server = residentOf(this.server.pid) / MIB
    // Who reads late deletes late.
    seen['unread messages'] = await this.unread()
    const { stream, buckets } = await this.bus.inspect()
    seen['stream messages'] = stream?.messages ?? 0
    seen['stream MiB'] = (stream?.bytes ?? 0) / MIB
    seen['stream disk MiB'] = this.diskOf(this.bus.subjects.stream) / MIB
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

  /** What the files of a stream take up, deleted messages and all. */
  private diskOf(stream: string): number {
    let bytes = 0
    for (const path of readdirSync(this.folder, { recursive: true, encoding: 'utf8' })) {
      if (!path.split(sep).includes(stream)) continue
      const found = statSync(join(this.folder, path), { throwIfNoEntry: false })
      if (found?.isFile()) bytes += found.blocks * BLOCK
    }
    return bytes
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
