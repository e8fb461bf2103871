import { decode } from '@passover/bus'
import type { PassOverPreferences } from '@passover/schemas'
import { RECOVERY_MS } from '../checks/deadlines.js'
import { controlIn, stepIn } from '../checks/pass-book.js'
import type { Kept } from '../server/stream.js'
import type { Simulation } from '../simulation.js'
import { EPOCH } from '../world.js'

/** How long a version that was published may not be in force: its author dies before it is in the bucket, and a dispatcher has to see that. */
const IN_FORCE_MS = 8_000

interface Version {
  version: number
  kept: Kept
  max_timeout_ms: number
}

/** Under which policy each pass was admitted (P4, P5): one that was published before, the newest where nothing is wrong, and by what it says. */
export class Policies {
  readonly #simulation: Simulation
  readonly #versions: Version[] = []

  constructor(simulation: Simulation) {
    this.#simulation = simulation
  }

  stored(kept: Kept): void {
    if (kept.subject.startsWith('policy.')) this.#note(kept)
    const step = stepIn(kept.subject)
    if (step?.kind === 'work' && this.#simulation.checks.book(step).work === kept.sequence) this.#judge(kept)
  }

  #note(kept: Kept): void {
    const body = decode(kept.data, 'msgpack')
    const { version, document } = (body.ok ? body.value : {}) as { version: number; document: PassOverPreferences }
    const next = (this.#versions.at(-1)?.version ?? 0) + 1
    const max_timeout_ms = document.defaults?.max_timeout_ms ?? Number.POSITIVE_INFINITY
    if (version === next) this.#versions.push({ version, kept, max_timeout_ms })
    else this.#simulation.checks.blame('P4', 'policy_order', `version ${version} is published where ${next} is the next`)
  }

  #judge(kept: Kept): void {
    const { checks, world, troubled_until } = this.#simulation
    const step = stepIn(kept.subject)
    if (!step) return
    const book = checks.book(step)
    const version = controlIn(kept)?.policy_version ?? 0
    const known = this.#versions.find((one) => one.version === version)
    if (version > 0 && (known?.kept.sequence ?? Number.POSITIVE_INFINITY) > kept.sequence)
      checks.blame('P4', 'policy_unknown', `${book.key} is admitted under version ${version}, which nobody published`)
    const asked = checks.askedFor(book).timeout_ms
    const timeout_ms = Number(kept.headers.get('Passover-Timeout'))
    const most = Math.min(asked ?? timeout_ms, known?.max_timeout_ms ?? Number.POSITIVE_INFINITY)
    if (book.parent === undefined ? timeout_ms !== most : timeout_ms > most)
      checks.blame('P5', 'policy_unheeded', `${book.key} may last ${timeout_ms} ms, version ${version} says ${most}`)
    // What was held was judged when it was.
    if (book.held || world.time < troubled_until + RECOVERY_MS) return
    const newest = this.#versions.findLast(({ kept: { time } }) => time < EPOCH + world.time - IN_FORCE_MS)
    if (newest && version < newest.version)
      checks.blame('P5', 'policy_old', `${book.key} is admitted under version ${version}, ${newest.version} should be in force`)
  }
}
