import type { Bus } from '@passover/bus'
import { storedId } from '@passover/schemas'
import type { FeedEvent } from '@passover/schemas/http'
import type { Caller } from '../auth/caller.js'

/** Maximum number of admitted passes that one feed remembers; for others it checks the stream. */
const MAX_REMEMBERED_PASSES = 10_000
/** Events that an agent does not see as subagent: those before admission, and the decisions of people. */
const NOT_FOR_SUBAGENTS = new Set(['request', 'held', 'decision'])

/** Decides which events one reader sees. A person sees all; an agent sees its own passes, as subagent only those that were admitted. */
export class FeedVisibility {
  readonly #bus: Pick<Bus, 'journal' | 'subjects'>
  readonly #caller: Pick<Caller, 'kind' | 'name'>
  readonly #admitted = new Set<string>()

  constructor(bus: Pick<Bus, 'journal' | 'subjects'>, caller: Pick<Caller, 'kind' | 'name'>) {
    this.#bus = bus
    this.#caller = caller
  }

  async sees(event: FeedEvent): Promise<boolean> {
    const { kind, name } = this.#caller
    if (kind === 'person' || event.originator === name) return true
    if (event.subagent !== name || NOT_FOR_SUBAGENTS.has(event.kind)) return false
    const key = `${event.originator} ${event.id}`
    if (this.#admitted.has(key)) return true
    // An agent may see events that it published. They do not prove admission, because it may publish about any pass to itself.
    if (event.by === name) return true
    if (event.kind !== 'work' && !(await this.#wasAdmitted(event))) return false
    this.#remember(key)
    return true
  }

  /** True if the work step of the pass is anywhere in the stream; the feed may have started after it. */
  async #wasAdmitted({ originator, subagent, id }: FeedEvent): Promise<boolean> {
    const named = storedId.safeParse(id)
    if (!originator || !subagent || !named.success) return false
    return (await this.#bus.journal.first(this.#bus.subjects.pattern('work', originator, subagent, named.data, '*'), 1)) !== undefined
  }

  #remember(key: string): void {
    this.#admitted.add(key)
    if (this.#admitted.size > MAX_REMEMBERED_PASSES) for (const oldest of this.#admitted) return void this.#admitted.delete(oldest)
  }
}
