import type { Trouble } from '../check/types.js'
import type { Topology } from '../cluster/topology.js'
import { CLUSTER_FAULTS, PROCESS_FAULTS } from '../options.js'
import { pause } from '../wait-for.js'
import { InvalidRunError } from './fault.js'
import { FAULT_HANDLERS } from './index.js'
import type { DoneFault, PlannedFault } from './schedule.js'

const SETTLE_TIMEOUT_MS = 90_000

/** Injects the faults of the schedule until all are done or the run is stopped, and undoes each of them. */
export class FaultInjector {
  readonly done: DoneFault[] = []
  /** Faults that could not be injected, and servers that did not recover. */
  readonly failures: string[] = []
  /** Reasons why the run proves nothing, for or against a promise. */
  readonly voided: string[] = []
  readonly #topology: Topology
  readonly #stop: AbortSignal
  readonly #under = new Set<Promise<void>>()

  constructor(topology: Topology, stop: AbortSignal) {
    this.#topology = topology
    this.#stop = stop
  }

  async run(schedule: readonly PlannedFault[]): Promise<void> {
    const start = performance.now()
    const until = (planned: PlannedFault) => pause(start + planned.at_ms - performance.now(), this.#stop)
    const processes = async () => {
      for (const planned of schedule.filter(isProcess)) {
        await until(planned)
        if (this.#stop.aborted) return
        this.#follow(this.#process(planned))
      }
    }
    const oneByOne = async (lane: readonly PlannedFault[], carryOut: (planned: PlannedFault) => Promise<void>) => {
      for (const planned of lane) {
        await until(planned)
        if (this.#stop.aborted) return
        await carryOut(planned)
      }
    }
    const servers = oneByOne(schedule.filter(isCluster), (planned) => this.#server(planned))
    const stream = oneByOne(
      schedule.filter((one) => !isProcess(one) && !isCluster(one)),
      (planned) => this.#carryOut(planned, async () => {}),
    )
    await Promise.all([processes(), servers, stream])
    await Promise.all(this.#under)
  }

  #follow(one: Promise<void>): void {
    const whole = one.finally(() => this.#under.delete(whole))
    this.#under.add(whole)
  }

  async #process(planned: PlannedFault): Promise<void> {
    // Skip a process that is frozen or still starting, since the times of the schedule assume a fast machine.
    const actor = this.#topology.actor(planned.target)
    if (actor && (actor.frozen || !actor.said('ready'))) return
    await this.#carryOut(planned, async () => {})
  }

  async #server(planned: PlannedFault): Promise<void> {
    await this.#carryOut(planned, async () => {
      if (await this.#topology.cluster.settled(SETTLE_TIMEOUT_MS)) return
      this.failures.push(`the servers have not settled ${SETTLE_TIMEOUT_MS} ms after ${planned.fault} ${planned.target}`)
    })
  }

  async #carryOut(planned: PlannedFault, recover: () => Promise<void>): Promise<void> {
    const began = Date.now()
    try {
      const hurt = await FAULT_HANDLERS[planned.fault](this.#topology, planned, this.#stop)
      const mended = Date.now()
      await recover()
      const how = 'done' in hurt ? { what: hurt.done } : { what: hurt.skipped, skipped: true as const }
      this.done.push({ ...planned, began, mended, recovered: Date.now(), ...how })
    } catch (error) {
      const why = `${planned.fault} ${planned.target}: ${error instanceof Error ? error.message : String(error)}`
      const list = error instanceof InvalidRunError ? this.voided : this.failures
      list.push(why)
    }
  }

  /** Returns the times during which the processes of a kind were frozen, by name. */
  frozen(kind: string): Record<string, Trouble[]> {
    const freezes = this.done.filter(({ fault, skipped }) => fault === 'freeze' && !skipped)
    const of = (name: string) => freezes.filter(({ target }) => target === name).map(({ began, mended }) => ({ from: began, to: mended }))
    return Object.fromEntries(this.#topology.of(kind).map(({ name }) => [name, of(name)]))
  }

  /** Returns the times during which one of these faults was in progress. */
  spansOf(of: (fault: DoneFault) => boolean): Trouble[] {
    return this.done.filter((one) => !one.skipped && of(one)).map(({ began, recovered }) => ({ from: began, to: recovered }))
  }

  /** Returns the times during which the condition of P2's bound did not hold: servers were disturbed, or no timekeeper was running. */
  troubles(): Trouble[] {
    const spans = this.done.filter(({ skipped }) => !skipped)
    return [
      ...this.spansOf(isCluster),
      ...allAway(
        spans.filter(({ target }) => this.#topology.actor(target)?.kind === 'dispatcher'),
        this.#topology.of('dispatcher').length,
      ),
    ]
  }
}

function isProcess({ fault }: PlannedFault): boolean {
  return (PROCESS_FAULTS as readonly string[]).includes(fault)
}

function isCluster({ fault }: PlannedFault): boolean {
  return (CLUSTER_FAULTS as readonly string[]).includes(fault)
}

/** Returns the times at which `count` processes were away at once. */
function allAway(spans: readonly DoneFault[], count: number): Trouble[] {
  const starts = spans.map(({ began }) => began)
  return starts.flatMap((from) => {
    const away = spans.filter(({ began, recovered }) => began <= from && recovered > from)
    if (new Set(away.map(({ target }) => target)).size < count) return []
    return [{ from, to: Math.min(...away.map(({ recovered }) => recovered)) }]
  })
}
