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

/** A message of `custody.<sender>`, its body decoded. */
export interface CustodyMessage {
  sequence: number
  time: number
  sender: string
  body: unknown
}

/** What of a message counted; undefined: nothing, as of what the audit says about no erasure that waits. */
export type AcceptedCustodyEvent = CustodyBody | undefined

/**
 * What is held, what was erased (decision 100) and what was removed (decision 113): the fold of the custody events in order. A person holds, releases
 * and asks for an erasure; what became of an erasure, and what retention takes out of the archive, only the audit says.
 */
export class CustodyLog {
  private readonly held = new Map<number, CustodyHold>()
  private readonly erased = new Map<number, CustodyErasure>()
  /** By the hash of its id: the erasure that a pass was part of. */
  private readonly ids = new Map<string, number>()
  /** Segments whose removal was told, or which had been removed before that was so. */
  private readonly left = new SegmentRanges()
  /** From which event on removals are told; undefined: they are not. */
  removals_since: number | undefined
  /** Sequence of the last event. */
  position = 0

  get holds(): CustodyHold[] {
    return [...this.held.values()]
  }

  get erasures(): CustodyErasure[] {
    return [...this.erased.values()]
  }

  take(said: CustodyMessage): AcceptedCustodyEvent {
    this.position = said.sequence
    const parsed = custodyBody.safeParse(said.body)
    if (!parsed.success) return undefined
    const { data } = parsed
    const counts = said.sender === SYSTEM ? this.did(said, data) : this.asked(said, data)
    return counts ? data : undefined
  }

  private asked({ sequence, time, sender: by }: CustodyMessage, body: CustodyBody): boolean {
    switch (body.kind) {
      case 'hold':
        this.held.set(sequence, { hold: sequence, scope: body.scope, reason: body.reason, by, time })
        return true
      case 'release':
        return this.held.delete(body.hold)
      case 'erase': {
        const { session, originator, reason } = body
        this.erased.set(sequence, {
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

  private did({ sequence }: CustodyMessage, body: CustodyBody): boolean {
    if (body.kind !== 'removals' && body.kind !== 'removed') return this.done(body)
    if (body.kind === 'removals') {
      if (this.removals_since !== undefined) return false
      this.removals_since = sequence
    }
    for (const run of body.kind === 'removals' ? body.untold : body.segments) this.left.add(run)
    return true
  }

  private done(body: CustodyBody): boolean {
    const erasure = 'erase' in body ? this.erased.get(body.erase) : undefined
    if (erasure?.state !== 'pending') return false
    switch (body.kind) {
      case 'erased':
        for (const { pass } of body.passes) this.ids.set(pass, body.erase)
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

  /** Whether anything of a session is held: then the session of a pass has to be known. */
  get holdsSessions(): boolean {
    return this.holds.some(({ scope }) => 'session' in scope)
  }

  /** The holds that a pass is under. A session that is not known is taken for none. */
  holdsOn(key: PassKey, session: string | undefined): CustodyHold[] {
    const text = keyText(key)
    return this.holds.filter(({ scope }) => ('session' in scope ? scope.session === session : keyText(scope.pass) === text))
  }

  /** Whether what becomes of a pass depends on its session. */
  get needsSessions(): boolean {
    return this.holdsSessions || this.pending !== undefined
  }

  /** Held; or to be erased, which overwrites what another deletion would leave on disk. */
  stays(key: PassKey, session: string | undefined): boolean {
    if (this.holdsOn(key, session).length > 0) return true
    return session !== undefined && this.erasures.some((erasure) => erasure.state === 'pending' && erasure.session === session)
  }

  /** The erasure of which a pass was part whose id has this SHA-256. */
  erasureOf(hash: string): CustodyErasure | undefined {
    const erase = this.ids.get(hash)
    return erase === undefined ? undefined : this.erased.get(erase)
  }

  /**
   * The run in which the removal of a segment was told last. It may stand all the same: it is removed afterwards, what is held by then stays, and an
   * archive that was lost and sealed anew has another chain.
   */
  toldOf(k: number): ReturnType<SegmentRanges['of']> {
    return this.left.of(k)
  }

  /** The first erasure that waits to be done. */
  get pending(): CustodyErasure | undefined {
    return this.erasures.find(({ state }) => state === 'pending')
  }
}

/** The entries that a tombstone stands for. */
export function entriesOf(passes: readonly ErasedPass[]): { sequence: number; time: number; digest: Uint8Array }[] {
  return passes.flatMap(({ frames }) => frames.map(([sequence, time, digest]) => ({ sequence, time, digest })))
}

type Run = Pick<SegmentRun, 'from' | 'to' | 'chain_before' | 'chain_after'>

/** Segments of which something was told. What goes on where the last ended, as it mostly does, is one run with it. */
export class SegmentRanges {
  private readonly runs: Run[] = []

  add({ from, to, chain_before, chain_after }: Run): void {
    const last = this.runs.at(-1)
    if (last && from === last.to + 1 && chain_before === last.chain_after) Object.assign(last, { to, chain_after })
    else this.runs.push({ from, to, chain_before, chain_after })
  }

  /** The last in which a segment was told. */
  of(k: number): Readonly<Run> | undefined {
    return this.runs.findLast(({ from, to }) => from <= k && k <= to)
  }
}
