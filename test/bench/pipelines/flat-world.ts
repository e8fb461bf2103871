import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, sep } from 'node:path'
import type { AuditStats } from '@passover/audit'
import { type Bus, openBus } from '@passover/bus'
import { type RunningServer, startServer } from '@passover/nats-server'
import { type Measured, type Role, startRole } from '../measure/harness.js'

/** Whose passes come: those of agents through the whole product, or whole journals that a feeder writes past dispatcher and worker. */
export type FlatLoad = 'product' | 'feed'

const PARTS: Record<FlatLoad, readonly string[]> = { product: ['dispatcher', 'audit', 'worker', 'originator'], feed: ['audit', 'feeder'] }
const MIB = 1024 * 1024
const BLOCK = 512
const SEGMENT = 4_096
const MOST_UNREAD = 20_000
/** Of what is due: as much as the deleter may be behind with. */
const MOST_UNDELETED = 8 * SEGMENT
/** Of a pass, and its share of an acknowledgment. */
const MESSAGES = 3.01
/**
 * While a message at the stream's beginning stays, as a registration does, the server keeps what is left of an empty block until its next sync: with the
 * two minutes of an installation 0.5 KB a pass, that come and go.
 */
const SYNC = '10s'
/** Clock ticks of /proc, µs. */
const TICK_US = 10_000

/** `kept`: what holds records, or is kept for retention_days. `told`: what says how it went. */
export type Kind = 'mib' | 'messages' | 'kept' | 'told'

export interface Seen {
  name: string
  kind: Kind
  value: number
}

/** A server and the processes of an installation, with a short id window in all of them. */
export class FlatWorld implements AsyncDisposable {
  /** Passes begun, and of those the ones that the last look knew of. */
  private passes = 0
  private looked = 0
  /** Processor time that each process had used by the last look, µs. */
  private readonly used = new Map<string, number>()
  /** How long the feeder was not let go on, ms. */
  private waited = 0

  private constructor(
    private readonly running: { folder: string; server: RunningServer; bus: Bus },
    private readonly roles: ReadonlyMap<string, Role>,
    private readonly id_window_ms: number,
  ) {}

  /** `niceness`, of the feeder: what it uses of these processors, which in earnest agents do not share, is not to be measured. */
  static async start({ id_window_ms, load, niceness }: { id_window_ms: number; load: FlatLoad; niceness?: number }): Promise<FlatWorld> {
    process.env.PASSOVER_ID_WINDOW_MS = String(id_window_ms)
    const folder = mkdtempSync(join(tmpdir(), 'passover-flat-'))
    const server = await startServer({ dir: folder, config: { sync: SYNC } })
    const roles = new Map<string, Role>()
    for (const role of PARTS[load]) {
      const script = new URL(role === 'feeder' ? './feeder.js' : './product.js', import.meta.url)
      roles.set(role, await startRole(script, { role, servers: server.url, ...(role === 'feeder' && { niceness }) }))
    }
    const bus = await openBus({ servers: [server.url], identity: 'passover' })
    return new FlatWorld({ folder, server, bus }, roles, id_window_ms)
  }

  get url(): string {
    return this.running.server.url
  }

  /** When the audit has everything. */
  async settled(): Promise<void> {
    await this.roles.get('audit')?.ask({ settle: true })
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
    this.passes += passes
  }

  /** A second's passes at a time, and none while the audit is far behind, as the high-water mark has it: what is stored faster than it goes shows nothing but that. */
  private async feed(feeder: Role, passes: number, rate: number): Promise<void> {
    for (let done = 0; done < passes; ) {
      const begun = performance.now()
      while (await this.isBehind(rate)) await new Promise((later) => setTimeout(later, 50))
      this.waited += performance.now() - begun
      const batch = Math.min(rate, passes - done)
      await feeder.ask({ passes: batch, rate })
      done += batch
    }
    this.passes += passes
  }

  private async isBehind(rate: number): Promise<boolean> {
    const { lag, undeleted } = await this.audit()
    return lag > MOST_UNREAD || undeleted > MOST_UNDELETED + (2 * this.id_window_ms * rate * MESSAGES) / 1_000
  }

  /** Messages that are stored and not read; that are read, and in no segment that is done with. */
  private async audit(): Promise<{ lag: number; undeleted: number }> {
    const stats = await this.roles.get('audit')?.ask<AuditStats>({ stats: true })
    return { lag: stats?.lag ?? 0, undeleted: (stats?.position ?? 0) - (stats?.deleted_to ?? 0) * SEGMENT }
  }

  async look(): Promise<Seen[]> {
    const { bus, server } = this.running
    const seen: Seen[] = []
    const note = (name: string, kind: Kind, value: number) => seen.push({ name, kind, value })
    const usages = new Map([...this.roles].map(([name, role]) => [name, role.usage()]))
    for (const [name, usage] of usages) note(name, 'mib', (await usage).rss / MIB)
    note('server', 'mib', residentOf(server.pid) / MIB)
    // Who reads late deletes late.
    note('unread messages', 'messages', (await this.audit()).lag)
    const { stream, buckets } = await bus.inspect()
    note('stream messages', 'messages', stream?.messages ?? 0)
    note('stream MiB', 'mib', (stream?.bytes ?? 0) / MIB)
    note('stream disk MiB', 'mib', this.diskOf(bus.subjects.stream) / MIB)
    for (const name of ['passes', 'archive', 'acknowledged']) {
      for (const one of buckets.filter((bucket) => bucket.name === name && bucket.messages > 0)) {
        note(`${one.kind === 'kv' ? 'records' : 'objects'} ${name} MiB`, 'kept', one.bytes / MIB)
      }
    }
    for (const [name, usage] of usages) note(`${name} µs a pass`, 'told', this.spent(name, (await usage).cpu_us))
    note('server µs a pass', 'told', this.spent('server', processorOf(server.pid)))
    if (this.roles.has('feeder')) note('waited for the audit s', 'told', this.waited / 1_000)
    this.looked = this.passes
    return seen
  }

  /** Processor time of a process since the last look, for each pass since. */
  private spent(name: string, used: number): number {
    const before = this.used.get(name) ?? 0
    this.used.set(name, used)
    return (used - before) / Math.max(1, this.passes - this.looked)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { bus, server, folder } = this.running
    await bus[Symbol.asyncDispose]()
    for (const role of this.roles.values()) await role[Symbol.asyncDispose]()
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  }

  /** What the files of a stream take up, deleted messages and all. */
  private diskOf(stream: string): number {
    let bytes = 0
    const { folder } = this.running
    for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
      if (!path.split(sep).includes(stream)) continue
      const found = statSync(join(folder, path), { throwIfNoEntry: false })
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

/** Processor time of a process that is not ours, µs (Linux; 0 elsewhere). */
function processorOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * TICK_US
  } catch {
    return 0
  }
}
