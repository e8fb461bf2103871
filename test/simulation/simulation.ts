import { createHash } from 'node:crypto'
import { Subjects } from '@passover/bus'
import type { PassHandle } from '@passover/sdk'
import { dispatcher, evil, keeper, originator, person, reaper, worker } from './actors/actors.js'
import { Callers } from './actors/callers.js'
import { judgeAnswers } from './checks/answers.js'
import { Checks } from './checks/checks.js'
import { Timely } from './checks/deadlines.js'
import { Evidence } from './checks/evidence.js'
import { type Book, stepIn } from './checks/pass-book.js'
import type { Violation } from './checks/violation.js'
import { beginFaults } from './plans/faults.js'
import { isDispatcher, isKeeper, type PassPlan, type Plan, rolesOf } from './plans/plan.js'
import { Policies } from './plans/policies.js'
import { SimBus } from './server/bus.js'
import { Line, type Weather } from './server/network-line.js'
import { SimServer } from './server/server.js'
import { isDeleted, type Kept } from './server/stream.js'
import { Process, World } from './world.js'

/** What a run showed. `digest` is of its whole history. */
export interface Result {
  seed: number
  digest: string
  steps: number
  passes: number
  violations: Violation[]
  tally: Record<string, number>
}

type Role = (simulation: Simulation, process: Process) => Promise<void>

const AGAIN_MS = 700

/** One run of a plan. */
export class Simulation {
  readonly plan: Plan
  readonly world: World
  readonly server: SimServer
  readonly checks: Checks
  readonly timely: Timely
  readonly evidence: Evidence
  readonly policies: Policies
  readonly callers: Callers
  readonly weather: Weather
  readonly tally: Record<string, number> = {}
  /** The id under which each planned root pass was asked for. */
  readonly asked = new Map<string, string>()
  readonly reaped = new Set<Book>()
  readonly processes = new Map<string, Process>()
  readonly lines = new Map<string, Line>()
  /** Until when something went wrong with the dispatchers or the server, ms. */
  troubled_until = Number.NEGATIVE_INFINITY
  /** The same of the audit. */
  audit_troubled_until = Number.NEGATIVE_INFINITY
  /** A person is asked about a pass: whether it may be dispatched, or its return delivered. */
  onDue: (book: Book, item: 'dispatch' | 'return') => void = () => undefined
  readonly #plans = new Map<string, PassPlan>()
  readonly #roles = new Map<string, Role>()
  readonly #starts = new Map<string, number>()

  constructor(plan: Plan) {
    this.plan = plan
    this.world = new World(plan.seed)
    this.server = new SimServer(this.world, new Subjects(), plan.segment)
    this.checks = new Checks(this.world, plan)
    this.timely = new Timely(this)
    this.evidence = new Evidence(this)
    this.policies = new Policies(this)
    this.callers = new Callers(this)
    this.world.onStep = () => this.timely.look()
    this.weather = { clustered: plan.clustered, slowest_ms: 1.5, loss: 0, late: 0, late_ms: 0, lag: plan.lag ?? 0.15, lag_by: plan.lag_by }
    const { checks } = this
    this.server.watcher = {
      stored: (kept) => this.#stored(kept),
      deleted: (kept) => {
        if (plan.segment !== undefined) this.evidence.deleted(kept)
        checks.deleted(kept)
      },
      acked: (consumer, sequence) => checks.acked(consumer, sequence),
    }
    const know = (pass: PassPlan) => {
      this.#plans.set(pass.name, pass)
      if (pass.spoilt) this.server.spoilt.set(pass.name, pass.spoilt.how)
      for (const child of pass.children) know(child)
    }
    for (const pass of plan.passes) know(pass)
    for (const name of rolesOf(plan)) this.#roles.set(name, roleOf(name))
    this.#roles.set('pat', person)
    if (plan.evil.length > 0) this.#roles.set('evil', evil)
    if (plan.deletes) this.#roles.set('reaper', reaper)
  }

  async run(): Promise<Result> {
    let delay = 0
    for (const name of this.#roles.keys()) {
      this.startLater(name, delay)
      delay += 3
    }
    beginFaults(this)
    await this.world.run(this.plan.until)
    this.timely.touch()
    this.timely.look()
    const { until } = this.evidence
    this.evidence.conclude()
    this.callers.conclude()
    this.world.onStep = () => undefined
    await judgeAnswers(this, until)
    const begun = [...this.checks.books.values()].filter(({ state }) => state !== 'none').length
    const { seed } = this.plan
    return { seed, digest: this.#digest(), steps: this.world.steps, passes: begun, violations: this.checks.violations, tally: this.tally }
  }

  /** What ends passes in time is in trouble from now on for so long. */
  trouble(ms: number): void {
    this.troubled_until = Math.max(this.troubled_until, this.world.time + ms)
    this.timely.touch()
  }

  /** One of the processes that answer for something is in trouble for so long. */
  troubleOf(who: string, ms: number): void {
    this.callers.trouble(who, ms)
    if (isDispatcher(who)) this.trouble(ms)
    if (isKeeper(who)) this.audit_troubled_until = Math.max(this.audit_troubled_until, this.world.time + ms)
  }

  count(what: string): void {
    this.tally[what] = (this.tally[what] ?? 0) + 1
  }

  startLater(name: string, ms: number): void {
    this.world.after(ms, () => this.#start(name))
  }

  #start(name: string): void {
    const role = this.#roles.get(name)
    const before = this.processes.get(name)
    if (!role || (before && !before.dead)) return
    const start = (this.#starts.get(name) ?? 0) + 1
    this.#starts.set(name, start)
    const process = new Process(this.world, name, { skew: this.plan.skew[name] ?? 0, start })
    this.processes.set(name, process)
    process.onDeath.add(() => {
      this.count('deaths')
      this.troubleOf(name, AGAIN_MS)
      this.startLater(name, AGAIN_MS)
    })
    process.after(0, () => {
      // What cannot start ends, and is started again.
      role(this, process).catch((error: unknown) => {
        this.count('failed starts')
        if (!isTrouble(error)) this.heardError(`${name} does not start`, error)
        process.die()
      })
    })
  }

  async connect(process: Process, identity: string): Promise<SimBus> {
    const line = new Line(process, { weather: this.weather, tally: (what) => this.count(what) })
    this.lines.set(process.name, line)
    if (!this.server.up) {
      line.closed = true
      throw new Error('unreachable')
    }
    return await SimBus.open(this.server, line, identity)
  }

  planOf(name: string): PassPlan | undefined {
    return this.#plans.get(name)
  }

  passOf({ key }: Book): PassPlan | undefined {
    return this.planOf(this.checks.nameOf(key) ?? '')
  }

  /** How long a pass that was asked for may last. */
  timeoutOf(key: string): number | undefined {
    return this.planOf(this.checks.nameOf(key) ?? '')?.timeout_ms
  }

  /** Hears what a caller is told of a pass. */
  hear(pass: PassPlan, about: { self?: { name: string }; name?: string; handle: PassHandle; same: boolean | undefined }): Promise<void> {
    const { handle, same } = about
    const by = about.self?.name ?? about.name ?? ''
    const key = `${by}/${pass.to}/${handle.id}`
    if (!pass.name.includes('.') && !this.asked.has(pass.name)) this.asked.set(pass.name, handle.id)
    this.checks.isAsked(pass.name, key)
    const told = { name: pass.name, key, by, same }
    const process = about.self && this.processes.get(by)
    const wait = process && this.callers.waits({ pass, key, process, same })
    return handle.result().then(
      ({ output }) => {
        if (wait) this.callers.told(wait, undefined)
        this.checks.isTold({ ...told, output: output ?? '' })
      },
      (error: { code?: string; message?: string }) => {
        if (error.code === undefined) this.heardError(`${by} hears of ${pass.name}`, error)
        if (wait) this.callers.told(wait, error.code ?? 'none')
        this.checks.isTold({ ...told, code: error.code ?? 'none', why: error.message ?? '' })
      },
    )
  }

  cancelLater(pass: PassPlan, handle: PassHandle): void {
    if (pass.cancel === undefined) return
    this.world.after(pass.cancel, () => void handle.cancel('as planned').catch(() => undefined))
  }

  /** Server time of the youngest message of a pass, its requests included; undefined: none is left. */
  youngestOf(book: Book): number | undefined {
    return this.checks.messagesOf(book.key).findLast((kept) => !isDeleted(kept))?.time
  }

  heardError(text: string, error: unknown): void {
    // Whoever only says that something is wrong is not wrong.
    if (error === undefined || isTrouble(error)) return
    this.count('errors')
    const told = error instanceof Error ? (error.stack ?? error.message) : String(error)
    this.checks.blame('P2', 'error', `${text}: ${told}`)
  }

  #stored(kept: Kept): void {
    this.checks.stored(kept)
    this.evidence.stored(kept)
    this.policies.stored(kept)
    this.timely.touch()
    const step = stepIn(kept.subject)
    if (!step) return
    const book = this.checks.book(step)
    if (step.kind === 'held' && kept.by !== 'bounce') this.onDue(book, 'dispatch')
    if (book.ended?.kept === kept) this.onDue(book, 'return')
  }

  #digest(): string {
    const hash = createHash('sha256')
    for (const kept of this.server.stream.log) {
      // A version of the policy has a UUID in it.
      const headers = kept.subject.startsWith('policy.') ? '' : kept.headers.text()
      hash.update(`${kept.subject} ${kept.time} ${kept.gone_at} ${headers}`)
      hash.update(kept.data)
    }
    hash.update(JSON.stringify([this.checks.told.map(({ book: _, ...told }) => told), this.world.steps]))
    return hash.digest('hex').slice(0, 16)
  }
}

function roleOf(name: string): Role {
  if (isDispatcher(name)) return dispatcher
  if (isKeeper(name)) return keeper
  return name === 'alice' || name === 'bob' ? originator : worker
}

/** What the network or the server does to whoever asks. */
function isTrouble(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  return ['BusReadError', 'TableError', 'ObjectError'].includes(error.name) || error.message === 'unreachable' || 'code' in error
}
