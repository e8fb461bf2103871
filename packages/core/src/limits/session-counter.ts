import { keyText, sha256, type WorkControl } from '@passover/schemas'

/** Sessions of one generation; when there are more, the quietest are forgotten sooner. */
const MAX_SESSIONS = 200_000
const MAX_CACHED_TOKENS = 10_000
const TOKEN_LENGTH = 16

export type PackedSession = [token: string, count: number, generation: 'now' | 'before']

/**
 * How many passes each session had. A session is kept for `keep_ms` after its last pass at least, and at most twice as long:
 * two generations take turns, and a session that goes on is carried over with its count. Times are those of the facts.
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

  /** As they are at this call, whatever is added while it goes on. */
  pack(): Generator<PackedSession> {
    const tokens = [...this.#now.keys()]
    const counts = Uint32Array.from(this.#now.values())
    const before = this.#before
    return (function* (): Generator<PackedSession> {
      for (const [n, token] of tokens.entries()) yield [token, counts[n] ?? 0, 'now']
      // Of the former generation nothing changes any more.
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

/** What tells which count a pass is added to. */
export type CountedPass = Pick<WorkControl, 'root' | 'originating_agent_id' | 'session_id' | 'parent' | 'unnamed_session'>

const known = new Map<string, string>()

/**
 * Returns the short name, fit for a header, of the count that a pass is added to. A pass without a parent counts for the session that its
 * originator named; where none was named, it counts for nothing. A child counts for what its originator asks for within the root's tree,
 * whatever session it claims (I3). So only an agent's own passes add to a count that limits it.
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

/** The session that a child belongs to is its root's; named only where the child claims another one. */
export function countedSession(parent: WorkControl | undefined, claimed: string): string | undefined {
  const counted = parent && (parent.counted_session ?? parent.session_id)
  return counted === claimed ? undefined : counted
}

/** The session that a pass belongs to, for holds and erasures: the name that the originator of its root gave it, whatever a child claims. */
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
