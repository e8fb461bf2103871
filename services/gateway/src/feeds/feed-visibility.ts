import type { Bus } from '@passover/bus'
import { storedId } from '@passover/schemas'
import type { FeedEvent } from '@passover/schemas/http'
import type { Caller } from '../auth/caller.js'

/** Passes of which one feed remembers that they were admitted; of others it looks. */
const MAX_REMEMBERED_PASSES = 10_000
/** Of a pass before it is admitted, and what people said of it: not its subagent's to know. */
const NOT_FOR_SUBAGENTS = new Set(['request', 'held', 'decision'])

/** What one reader of a feed sees. A person sees all; an agent its own passes, as subagent only those that were admitted. */
export class FeedVisibility {
  readonly #admitted = new Set<string>()

  constructor(
    private readonly bus: Pick<Bus, 'journal' | 'subjects'>,
    private readonly caller: Pick<Caller, 'kind' | 'name'>,
  ) {}

  async sees(event: FeedEvent): Promise<boolean> {
    const { kind, name } = this.caller
    if (kind === 'person' || event.originator === name) return true
    if (event.subagent !== name || NOT_FOR_SUBAGENTS.has(event.kind)) return false
    const key = `${event.originator} ${event.id}`
    if (this.#admitted.has(key)) return true
    // What it published itself it knows, and that proves nothing: it may publish about any pass to it.
    if (event.by === name) return true
    if (event.kind !== 'work' && !(await this.#wasAdmitted(event))) return false
    this.#remember(key)
    return true
  }

  /** Whether its work step is in the stream, wherever it stands: the feed may have begun after it. */
  async #wasAdmitted({ originator, subagent, id }: FeedEvent): Promise<boolean> {
    const named = storedId.safeParse(id)
    if (!originator || !subagent || !named.success) return false
    return (await this.bus.journal.first(this.bus.subjects.pattern('work', originator, subagent, named.data, '*'), 1)) !== undefined
  }

  #remember(key: string): void {
    this.#admitted.add(key)
    if (this.#admitted.size > MAX_REMEMBERED_PASSES) for (const oldest of this.#admitted) return void this.#admitted.delete(oldest)
  }
}
