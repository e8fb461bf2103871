import {
  type CustodyBody,
  type CustodyErasure,
  type CustodyHold,
  custodyBody,
  type ErasedPass,
  keyText,
  type PassKey,
  type SegmentRun,
  SYSTEM,
} from '@passover/schemas'

/** A message of `custody.<sender>` with its decoded body. */
export interface CustodyMessage {
  sequence: number
  time: number
  sender: string
  body: unknown
}

/** The accepted event of a message. `undefined` if the message does not count, for example an audit message about an erasure that is not pending. */
export type AcceptedCustodyEvent = CustodyBody | undefined

/**
 * Holds, erasures (decision 100) and removals (decision 87): the fold of the custody events in order. A person sets and releases holds and requests
 * erasures. Only the audit service reports the result of an erasure and what retention removes from the archive.
 */
export class CustodyLog {
  readonly #held = new Map<number, CustodyHold>()
  readonly #erased = new Map<number, CustodyErasure>()
  /** Sequence of the erasure that a pass was part of, by the hash of the pass's id. */
  readonly #ids = new Map<string, number>()
  /** Segments whose removal an event announced, or which had been removed before such events existed. */
  readonly #left = new SegmentRanges()
  /** First event from which removals are announced. `undefined` if they are not. */
  removals_since: number | undefined
  /** Sequence of the last event. */
  position = 0

  get holds(): CustodyHold[] {
    return [...this.#held.values()]
  }

  get erasures(): CustodyErasure[] {
    return [...this.#erased.values()]
  }

  take(said: CustodyMessage): AcceptedCustodyEvent {
    this.position = said.sequence
    const parsed = custodyBody.safeParse(said.body)
    if (!parsed.success) return undefined
    const { data } = parsed
    const counts = said.sender === SYSTEM ? this.#did(said, data) : this.#asked(said, data)
    return counts ? data : undefined
  }

  #asked({ sequence, time, sender: by }: CustodyMessage, body: CustodyBody): boolean {
    switch (body.kind) {
      case 'hold':
        this.#held.set(sequence, { hold: sequence, scope: body.scope, reason: body.reason, by, time })
        return true
      case 'release':
        return this.#held.delete(body.hold)
      case 'erase': {
        const { session, originator, reason } = body
        this.#erased.set(sequence, {
          erase: sequence,
          session,
          ...(originator && { originator }),
          reason,
          by,
          time,
          state: 'pending',
          passes: 0,
          entries: 0,
          parts: 0,
        })
        return true
      }
      default:
        return false
    }
  }

  #did({ sequence }: CustodyMessage, body: CustodyBody): boolean {
    if (body.kind !== 'removals' && body.kind !== 'removed') return this.#done(body)
    if (body.kind === 'removals') {
      if (this.removals_since !== undefined) return false
      this.removals_since = sequence
    }
    for (const run of body.kind === 'removals' ? body.untold : body.segments) this.#left.add(run)
    return true
  }

  #done(body: CustodyBody): boolean {
    const erasure = 'erase' in body ? this.#erased.get(body.erase) : undefined
    if (erasure?.state !== 'pending') return false
    switch (body.kind) {
      case 'erased':
        for (const { pass } of body.passes) this.#ids.set(pass, body.erase)
        erasure.passes += body.passes.length
        erasure.entries += body.passes.reduce((sum, { frames }) => sum + frames.length, 0)
        return true
      case 'refused':
        Object.assign(erasure, { state: 'refused', why: body.why })
        return true
      case 'done':
        Object.assign(erasure, { state: 'done', parts: body.parts })
        return true
      default:
        return false
    }
  }

  /** True if a session is held. The session of each pass must be known then. */
  get holdsSessions(): boolean {
    return this.holds.some(({ scope }) => 'session' in scope)
  }

  /** Returns the holds that apply to a pass. A pass of unknown session is not covered by holds on sessions. */
  holdsOn(key: PassKey, session: string | undefined): CustodyHold[] {
    const text = keyText(key)
    return this.holds.filter(({ scope }) => ('session' in scope ? scope.session === session : keyText(scope.pass) === text))
  }

  /** True if the treatment of a pass depends on its session. */
  get needsSessions(): boolean {
    return this.holdsSessions || this.pending !== undefined
  }

  /**
   * Returns true if a pass must not be deleted: it is held, or it waits for an erasure, which overwrites data that a plain deletion would leave on
   * disk.
   */
  stays(key: PassKey, session: string | undefined): boolean {
    if (this.holdsOn(key, session).length > 0) return true
    return session !== undefined && this.erasures.some((erasure) => erasure.state === 'pending' && erasure.session === session)
  }

  /** Returns the erasure that included the pass whose id has this SHA-256. */
  erasureOf(hash: string): CustodyErasure | undefined {
    const erase = this.#ids.get(hash)
    return erase === undefined ? undefined : this.#erased.get(erase)
  }

  /**
   * Returns the last announced run of removals that contains a segment. The segment may still exist: it is removed after the event, it stays if it is
   * held by then, and an archive that was lost and rebuilt has a different chain.
   */
  toldOf(k: number): ReturnType<SegmentRanges['of']> {
    return this.#left.of(k)
  }

  /** The first pending erasure. */
  get pending(): CustodyErasure | undefined {
    return this.erasures.find(({ state }) => state === 'pending')
  }
}

/** Returns the entries that a tombstone replaces. */
export function entriesOf(passes: readonly ErasedPass[]): { sequence: number; time: number; digest: Uint8Array }[] {
  return passes.flatMap(({ frames }) => frames.map(([sequence, time, digest]) => ({ sequence, time, digest })))
}

type Run = Pick<SegmentRun, 'from' | 'to' | 'chain_before' | 'chain_after'>

/** Ranges of segments from custody events. A range that continues the last one, which is the usual case, is merged with it. */
export class SegmentRanges {
  readonly #runs: Run[] = []

  add({ from, to, chain_before, chain_after }: Run): void {
    const last = this.#runs.at(-1)
    if (last && from === last.to + 1 && chain_before === last.chain_after) Object.assign(last, { to, chain_after })
    else this.#runs.push({ from, to, chain_before, chain_after })
  }

  /** Returns the last range that contains a segment. */
  of(k: number): Readonly<Run> | undefined {
    return this.#runs.findLast(({ from, to }) => from <= k && k <= to)
  }
}
