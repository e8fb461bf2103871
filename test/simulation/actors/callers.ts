import { BOUND_MS, RECOVERY_MS } from '../checks/deadlines.js'
import type { PassPlan } from '../plans/plan.js'
import { isNamed, type Spoilt } from '../plans/spoil.js'
import type { Simulation } from '../simulation.js'
import type { Process } from '../world.js'
import { APPROVAL_MS, OWN } from './caller-answers.js'

/** An originator waits for as long after the deadline before it says that nobody answers. */
const NO_ANSWER_MS = 5_000
const NEVER = Number.NEGATIVE_INFINITY

/** A caller that waits to be told of a pass. */
interface Wait {
  pass: PassPlan
  key: string
  process: Process
  /** Ms since the beginning. */
  since: number
  /** False: it asks with another request under the same id. */
  same: boolean | undefined
  /** How the request that it waits for was spoilt. */
  how: Spoilt | undefined
}

/** Checks that each caller gets an answer in time (P2), and that the answer to an unreadable request is a refusal. */
export class Callers {
  readonly #simulation: Simulation
  readonly #waits = new Set<Wait>()
  readonly #troubled = new Map<string, number>()

  constructor(simulation: Simulation) {
    this.#simulation = simulation
  }

  trouble(who: string, ms: number): void {
    this.#troubled.set(who, Math.max(this.#troubled.get(who) ?? NEVER, this.#simulation.world.time + ms))
  }

  waits(wait: Omit<Wait, 'since' | 'how'>): Wait {
    const { world, server } = this.#simulation
    const one = { ...wait, since: world.time, how: server.spoilt.get(wait.pass.name) }
    this.#waits.add(one)
    return one
  }

  told(wait: Wait, code: string | undefined): void {
    this.#waits.delete(wait)
    const { pass, key, same, since, process, how } = wait
    if (how === undefined || !isNamed(how) || same === false) return
    const { world, checks, plan } = this.#simulation
    if (code === 'E005') this.#simulation.count(`refused ${how}`)
    // A cluster's callers read what they heard, from replicas that may lag for as long as they wait.
    if (plan.clustered || this.#calm(process) > since) return
    const said = `${process.name} is told ${code ?? 'an output'} of ${pass.name} (${key}), whose request is ${how}`
    // An output belongs to a well-formed request with the same id.
    if (code !== undefined && OWN.has(code)) checks.blame('P2', 'refusal_unheard', said)
    const late = world.time - since
    // Any outcome but a refusal belongs to a well-formed request with the same id, which may take longer.
    if (late > BOUND_MS && (code === 'E005' || !pass.spoilt?.until_again))
      checks.blame('P2', 'refusal_late', `${said}, ${Math.round(late)} ms after it asked`)
  }

  /** Reports each caller in a live process that has waited for longer than a pass can last. */
  conclude(): void {
    const { world, checks } = this.#simulation
    for (const { pass, key, process, since } of this.#waits) {
      if (process.dead) continue
      const must = Math.max(since, this.#calm(process)) + 2 * pass.timeout_ms + 2 * APPROVAL_MS + NO_ANSWER_MS + BOUND_MS
      if (world.time > must) checks.blame('P2', 'untold', `${process.name} is told nothing of ${pass.name} (${key})`)
    }
  }

  /** When everything that answers a caller, and its own process, has recovered, ms. */
  #calm({ name }: Process): number {
    const { troubled_until, audit_troubled_until } = this.#simulation
    return Math.max(troubled_until, audit_troubled_until, this.#troubled.get(name) ?? NEVER) + RECOVERY_MS
  }
}
