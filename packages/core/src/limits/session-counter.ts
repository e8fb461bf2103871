import { keyText, sha256, type WorkControl } from '@passover/schemas'

/** Maximum number of sessions per generation. If there are more, inactive sessions are forgotten earlier. */
const MAX_SESSIONS = 200_000
const MAX_CACHED_TOKENS = 10_000
const TOKEN_LENGTH = 16

export type PackedSession = [token: string, count: number, generation: 'now' | 'before']

/**
 * Counts the passes of each session. A session is kept for at least `keep_ms` after its last pass, and at most twice as long: there are two
 * generations, and an active session is carried over with its count. Times are those of the facts.
 */
export class SessionCounter {
  readonly #keep_ms: number
  #now = new Map<string, number>()
  #before = new Map<string, number>()
  turned: number | undefined

  constructor(keep_ms: number) {
    this.#keep_ms = keep_ms
  }

  add(token: string, time: number): void {
    this.turned ??= time
    if (time - this.turned >= this.#keep_ms || this.#now.size >= MAX_SESSIONS) this.#turn(time)
    this.#now.set(token, this.count(token) + 1)
  }

  count(token: string): number {
    return this.#now.get(token) ?? this.#before.get(token) ?? 0
  }

  /** Yields the counts as they are at the time of the call, even if passes are added while the caller iterates. */
  pack(): Generator<PackedSession> {
    const tokens = [...this.#now.keys()]
    const counts = Uint32Array.from(this.#now.values())
    const before = this.#before
    return (function* (): Generator<PackedSession> {
      for (const [n, token] of tokens.entries()) yield [token, counts[n] ?? 0, 'now']
      // The previous generation no longer changes.
      for (const [token, count] of before) yield [token, count, 'before']
    })()
  }

  unpack([token, count, generation]: PackedSession): void {
    const sessions = generation === 'now' ? this.#now : this.#before
    sessions.set(token, count)
  }

  #turn(time: number): void {
    this.#before = this.#now
    this.#now = new Map()
    this.turned = time
  }
}

/** Fields that determine which count a pass is added to. */
export type CountedPass = Pick<WorkControl, 'root' | 'originating_agent_id' | 'session_id' | 'parent' | 'unnamed_session'>

const known = new Map<string, string>()

/**
 * Returns the short name, usable in a header, of the count that a pass is added to. A pass without a parent counts for the session that its
 * originator named, and is not counted if no session was named. A child counts for what its originator requests within the root's tree, whatever
 * session it claims (I3). So an agent's limits count only its own passes.
 */
export function countToken({ root, originating_agent_id, session_id, parent, unnamed_session }: CountedPass): string | undefined {
  if (parent) return short(`tree ${originating_agent_id} ${keyText(root)}`)
  if (unnamed_session || session_id === '') return undefined
  const name = `${originating_agent_id} ${session_id}`
  const found = known.get(name)
  if (found !== undefined) return found
  if (known.size >= MAX_CACHED_TOKENS) known.clear()
  const token = short(`session ${name}`)
  known.set(name, token)
  return token
}

function short(text: string): string {
  return sha256(text).slice(0, TOKEN_LENGTH)
}

/** Returns the session of a child, which is that of its root, or `undefined` if the child claims the same session. */
export function countedSession(parent: WorkControl | undefined, claimed: string): string | undefined {
  const counted = parent && (parent.counted_session ?? parent.session_id)
  return counted === claimed ? undefined : counted
}

/** Returns the session of a pass, for holds and erasures: the name that the originator of its root gave, whatever a child claims. */
export function rootSession({
  root,
  session_id,
  counted_session,
}: Pick<WorkControl, 'root' | 'session_id' | 'counted_session'>): SessionName {
  return { originator: root.originator, session: counted_session ?? session_id }
}

export interface SessionName {
  originator: string
  session: string
}
