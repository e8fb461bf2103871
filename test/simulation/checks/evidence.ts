import { decode } from '@passover/bus'
import { RETURN_DEADLINE_MS } from '../actors/actors.js'
import { isDeleted, type Kept } from '../server/stream.js'
import type { Simulation } from '../simulation.js'
import { archiveIn } from './archive-reading.js'
import { type Book, header } from './pass-book.js'
import { recordsIn, wrongRecord } from './record-reading.js'

/** What the audit has not done by then it does not do: a write is tried again after half a second, and waited for for five. */
const AUDIT_MS = 12_000
/** How long the deletion of what was found to be old may take: what was stored meanwhile is not known. */
const DELETION_MS = 6_000

/** What the audit keeps (P4): a record of each pass, the archive, and whether what it deletes may go. It reads the bytes of the buckets. */
export class Evidence {
  readonly #simulation: Simulation
  /** Sequences that the originators said they have. */
  readonly #acknowledged = new Map<string, Set<number>>()

  constructor(simulation: Simulation) {
    this.#simulation = simulation
  }

  stored(kept: Kept): void {
    const [kind, originator = ''] = kept.subject.split('.')
    if (kind !== 'acknowledged') return
    const has = this.#acknowledged.get(originator) ?? new Set()
    this.#acknowledged.set(originator, has)
    const body = decode(kept.data, 'msgpack')
    let sequence = 0
    for (const step of (body.ok && (body.value as { returns?: number[] }).returns) || []) {
      sequence += step
      has.add(sequence)
    }
  }

  /** A message is deleted by the audit: its pass must be closed, delivered, archived, and older than two windows. */
  deleted(kept: Kept): void {
    const { checks, server, plan, world } = this.#simulation
    this.#simulation.count('deleted')
    const told = `${kept.subject} (${kept.sequence}) is deleted`
    if (!archiveIn(server).has(kept)) checks.blame('P4', 'deleted_unarchived', `${told} and not archived`)
    const book = this.#ownerOf(kept)
    if (!book) return
    // Messages of a pass without a request may be deleted at any time. A request that was refused under its own number does not count.
    if (book.state === 'none' && book.requests.every((sequence) => checks.isAnsweredApart(book, sequence))) return
    if (book.state !== 'done') {
      checks.blame('P4', 'deleted_open', `${told}, and ${book.key} is ${book.state}`)
      return
    }
    const now = world.now
    const young = this.#messagesOf(book).find((one) => {
      return one.time >= now - 2 * plan.id_window_ms && one.time < now - DELETION_MS && this.#postpones(one, book)
    })
    if (young) checks.blame('P4', 'deleted_young', `${told}, and ${young.subject} (${young.sequence}) is ${now - young.time} ms old`)
    if (this.#isAwaited(book)) checks.blame('P4', 'deleted_undelivered', `${told}, and nobody has the return of ${book.key}`)
  }

  /** What agents store after the end keeps nothing; a request does, for eight windows. */
  #postpones({ subject, sequence }: Kept, { ended }: Book): boolean {
    const { plan, world } = this.#simulation
    if (!ended || sequence <= ended.kept.sequence) return true
    const tokens = subject.split('.')
    if (tokens[0] === 'request') return world.now <= ended.kept.time + 8 * plan.id_window_ms
    return tokens[0] === 'held' || tokens[0] === 'work' || (tokens[0] === 'return' && tokens[4] === 'passover')
  }

  /** Server time up to which the audit has had time to do everything; −∞ when something was wrong with it until now. */
  get until(): number {
    const { world, audit_troubled_until, troubled_until } = this.#simulation
    const calm = Math.max(audit_troubled_until, troubled_until) + AUDIT_MS
    return world.time > calm ? world.now - AUDIT_MS : Number.NEGATIVE_INFINITY
  }

  /** How the audit stands at the end, where nothing was wrong with it for a while. */
  conclude(): void {
    const { checks, server, plan } = this.#simulation
    const { until } = this
    if (plan.segment !== undefined) {
      for (const { kind, text } of archiveIn(server).wrong({ messages: plan.segment, until })) checks.blame('P4', kind, text)
    }
    const records = recordsIn(server)
    for (const book of checks.books.values()) {
      if (!book.ended || book.ended.kept.time > until) continue
      // The reaper also deletes messages that are not archived. After that, only a later "expired" of the same id can be read.
      const isGone = plan.deletes && isDeleted(book.ended.kept)
      const wrong = wrongRecord(records.get(book.key), book, checks.refusesUnread(book) && !isGone)
      if (wrong !== undefined) checks.blame('P4', 'record', `the record of ${book.key} ${wrong}`)
    }
    this.#judgeViolations(until)
    this.#judgeUnread(until)
  }

  /** Every step that does not count is recorded as one violation. */
  #judgeViolations(until: number): void {
    const { checks, server } = this.#simulation
    const told = new Map<number, number>()
    for (const kept of server.stream.log) {
      const [kind, , , , what] = kept.subject.split('.')
      if (kind !== 'event' || what !== 'violation') continue
      const body = decode(kept.data, 'msgpack')
      const sequence = body.ok ? Number((body.value as { sequence?: number }).sequence) : 0
      told.set(sequence, (told.get(sequence) ?? 0) + 1)
    }
    for (const kept of checks.forged) {
      const times = told.get(kept.sequence) ?? 0
      if (times > 1 || (times === 0 && kept.time < until))
        checks.blame('P4', 'violation', `${kept.subject} (${kept.sequence}) does not count, and is recorded ${times} times`)
    }
  }

  /** Checks that each unreadable request is answered once, and that its bytes are kept with the answer. */
  #judgeUnread(until: number): void {
    const { checks } = this.#simulation
    for (const kept of checks.spoilt) {
      if (kept.time > until || isDeleted(kept)) continue
      const told = `request ${kept.sequence} (${kept.subject}), which is ${kept.spoilt}`
      const answers = checks.answersOf(kept)
      if (answers.length !== 1) checks.blame('P2', 'unread_answers', `${told}, has ${answers.length} answers`)
      const [book] = answers
      if (book?.ended?.code !== 'E005' || book.answers !== kept.sequence || book.ended.kept.time > until) continue
      const letters = checks.messagesOf(book.key).filter(({ subject }) => subject.split('.')[4] === 'dead_letter')
      if (!letters.some(({ data }) => deadIn(data) === kept.sequence))
        checks.blame('P4', 'unread_kept', `${told}, is not kept as a dead letter`)
    }
  }

  /** Whether its originator asked for delivery, has not said that it has it, and may still take it. */
  #isAwaited(book: Book): boolean {
    const { plan, world } = this.#simulation
    const { ended } = book
    if (!ended || !plan.durable?.includes(book.originator)) return false
    if (this.#acknowledged.get(book.originator)?.has(ended.kept.sequence)) return false
    return world.now < ended.kept.time + RETURN_DEADLINE_MS
  }

  /** The pass that a message goes with: a request that was refused under a name of its own goes with that. */
  #ownerOf(kept: Kept): Book | undefined {
    const { checks } = this.#simulation
    const tokens = kept.subject.split('.')
    const [kind = '', a = '', b = '', c = ''] = tokens
    if (kind === 'request') {
      const bad = checks.books.get(`${b}/${a}/bad-${String(kept.sequence).padStart(9, '0')}`)
      const id = header(kept, 'Passover-Id')
      return bad ?? (id === undefined ? undefined : checks.books.get(`${b}/${a}/${id}`))
    }
    return tokens.length >= 5 && ['held', 'work', 'fence', 'return', 'event', 'decision'].includes(kind)
      ? checks.books.get(`${a}/${b}/${c}`)
      : undefined
  }

  #messagesOf(book: Book): Kept[] {
    return this.#simulation.checks.messagesOf(book.key).filter((kept) => this.#ownerOf(kept) === book)
  }
}

/** The request that a dead letter keeps. */
function deadIn(data: Uint8Array): unknown {
  const body = decode(data, 'msgpack')
  return body.ok ? (body.value as { sequence?: unknown }).sequence : undefined
}
