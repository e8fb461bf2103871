import { CLOCK_MS, type Told, wrongIn } from '../actors/caller-answers.js'
import type { PassPlan, Plan } from '../plans/plan.js'
import type { Watcher } from '../server/server.js'
import { isDeleted, type Kept } from '../server/stream.js'
import type { World } from '../world.js'
import { askedIn, type Book, controlIn, emptyBook, enter, header, impossible, type StepText, stepIn, timeOf } from './pass-book.js'
import type { Violation } from './violation.js'

const MAX_ATTEMPTS = 3
const MAX_DEPTH = 3
/** A clock without a good measure is measured again by then. */
const MEASURED_AGAIN_MS = 2_500

/** Looks at every message as it is stored, and at everything that callers and handlers see. It shares no rule with the product. */
export class Checks implements Watcher {
  readonly violations: Violation[] = []
  readonly books = new Map<string, Book>()
  readonly told: Told[] = []
  readonly #world: World
  readonly #plan: Plan
  readonly #begun = new Map<string, number>()
  /** Steps of dishonest workers that do not count. */
  readonly forged: Kept[] = []
  /** Requests that their senders spoilt. */
  readonly spoilt = new Set<Kept>()
  readonly #log = new Map<number, Kept>()
  readonly #messages = new Map<string, Kept[]>()
  readonly #keys = new Map<string, Set<string>>()
  readonly #names = new Map<string, string>()

  constructor(world: World, plan: Plan) {
    this.#world = world
    this.#plan = plan
  }

  blame(promise: Violation['promise'], kind: string, text: string): void {
    this.violations.push({ promise, kind, text, at: this.#world.time })
  }

  book(about: Omit<StepText, 'kind' | 'by'>): Book {
    const key = `${about.originator}/${about.subagent}/${about.id}`
    const known = this.books.get(key) ?? emptyBook(about)
    this.books.set(key, known)
    return known
  }

  stored(kept: Kept): void {
    this.#log.set(kept.sequence, kept)
    if (kept.spoilt) this.spoilt.add(kept)
    const step = stepIn(kept.subject)
    const bounced = kept.by === 'bounce'
    if (step && bounced) this.forged.push(kept)
    else if (step) this.#step(kept, step)
    const [kind, a = '', b = '', c = '', d = '', e = ''] = kept.subject.split('.')
    const id = header(kept, 'Passover-Id')
    const key = kind === 'request' ? `${b}/${a}/${id}` : `${a}/${b}/${c}`
    const known = this.#messages.get(key)
    if (known) known.push(kept)
    else this.#messages.set(key, [kept])
    if (kind === 'request' && id) this.book({ originator: b, subagent: a, id }).requests.push(kept.sequence)
    if (kind === 'event' && d === 'cancel' && e) this.book({ originator: a, subagent: b, id: c }).cancelled_at ??= kept.time
    if (kind === 'decision' && !bounced) this.#decision(kept, d, this.book({ originator: a, subagent: b, id: c }))
  }

  deleted(kept: Kept): void {
    const step = stepIn(kept.subject)
    if (!step) return
    if (this.book(step).state !== 'done')
      this.blame('P4', 'deleted_open', `${kept.subject} (${kept.sequence}) is deleted and its pass is open`)
    const left = this.#left(step, kept)
    if (left.state === 'held' || left.state === 'open')
      this.blame('P4', 'reopened', `without ${kept.subject} (${kept.sequence}) its ended pass reads as ${left.state}`)
  }

  /** A pass as it reads when this message of it is deleted too: ended as it did, or not begun, and no guard can be passed. */
  #left(step: StepText, gone: Kept): Book {
    const left = emptyBook(step)
    for (const kept of this.messagesOf(left.key)) {
      if (kept === gone || kept.by === 'bounce' || isDeleted(kept)) continue
      const one = stepIn(kept.subject)
      if (!one) continue
      if (impossible(left, kept, { step: one, window_ms: this.#plan.id_window_ms }) === undefined) enter(left, kept, one)
    }
    return left
  }

  #decision(kept: Kept, item: string, book: Book): void {
    const digest = header(kept, 'Passover-Digest') ?? ''
    const verdict = header(kept, 'Passover-Verdict') ?? ''
    if (item === 'return') book.released.set(digest, book.released.get(digest) ?? { verdict, time: kept.time })
    else if (verdict === 'approve') book.approved.add(digest)
  }

  #step(kept: Kept, step: StepText): void {
    const book = this.book(step)
    const why = impossible(book, kept, { step, window_ms: this.#plan.id_window_ms })
    const told = `${step.kind} of ${book.key} by ${step.by} (${kept.sequence})`
    if (why !== undefined) {
      this.#ignored(kept, book, { step, why, told })
      return
    }
    this.#judge(kept, book, { step, told })
    enter(book, kept, step)
    if (book.begun_at === kept.time) this.#judgeUnreadable(kept, book, step)
    if (step.kind === 'work') this.#judgeWork(kept, book)
    if (book.begun_at === kept.time && book.state !== 'done') this.#judgeProof(kept, book)
  }

  /** What an honest process stored under its guard counts: else somebody acts on what did not happen. */
  #ignored(kept: Kept, book: Book, { step, why, told }: { step: StepText; why: string; told: string }): void {
    if (kept.by === 'evil' && why !== 'late') this.forged.push(kept)
    if (kept.by === 'evil' || why === 'late') return
    const expects = (what: string) => kept.headers.get(`Nats-Expected-Last-Subject-Sequence${what}`) !== undefined
    // Guarded by its own subject alone: nobody but the system can have stored there.
    const last_resort = step.kind === 'return' && expects('') && !expects('-Subject')
    const code = header(kept, 'Passover-Code')
    // An id of its own time can be asked for again after two windows: that it expired is an answer, no return.
    if (why === 'ended' && (last_resort || code === 'E005')) return
    const end = book.ended?.kept
    const forgotten = why === 'ended' && end && isDeleted(end)
    const hidden = step.kind === 'return' && this.#followsForged(kept)
    if (forgotten && this.#isForgotten(kept, book)) this.#begins(kept, step)
    else if (!hidden) this.blame('P2', 'stored_in_vain', `${told} is stored under its guard and does not count: ${why}`)
  }

  /** A return after a message that does not count: exact gets may not show the worker what is before that. A fence never follows one (rule 8). */
  #followsForged(kept: Kept): boolean {
    const expected = Number(kept.headers.get('Nats-Expected-Last-Subject-Sequence'))
    return this.forged.some(({ sequence }) => sequence === expected)
  }

  /**
   * An id without a time is remembered for two windows; whoever uses it after that begins another pass. The same holds for an id that a fast clock
   * made, and that has not expired then.
   */
  #isForgotten(kept: Kept, book: Book): boolean {
    const since = book.ended ? kept.time - book.ended.kept.time : 0
    return kept.time - (timeOf(book.id) ?? kept.time) <= this.#plan.id_window_ms && since >= 2 * this.#plan.id_window_ms
  }

  #begins(kept: Kept, step: StepText): void {
    const old = this.book(step)
    const book = emptyBook(step)
    book.requests = old.requests.filter((sequence) => this.timeOf(sequence) > (old.ended?.kept.time ?? 0))
    this.books.set(book.key, book)
    this.#begun.delete(book.key)
    for (const name of [...this.#begun.keys()]) if (name.startsWith(`${book.key} `)) this.#begun.delete(name)
    enter(book, kept, step)
  }

  #judge(kept: Kept, book: Book, { step, told }: { step: StepText; told: string }): void {
    if (kept.by === 'evil') return
    const code = header(kept, 'Passover-Code')
    if (step.kind === 'fence' && book.attempt + 1 > MAX_ATTEMPTS) this.blame('P1', 'attempts', `${told} begins attempt ${book.attempt + 1}`)
    if (step.kind === 'work' && book.state === 'held' && !book.approved.has(book.digest ?? ''))
      this.blame('P5', 'unapproved', `${told}: nobody approved what was held`)
    const early = book.deadline - kept.time
    if (step.kind === 'return' && code === 'E010' && book.state === 'open' && early > CLOCK_MS)
      this.blame('P2', 'early', `${told} ends it ${early} ms before its deadline`)
    if (step.kind === 'return' && step.by === 'passover' && code === 'E011' && this.#isInnocent(book))
      this.blame('P2', 'neighbour', `${told} says that its attempts were lost, and only other passes end processes`)
  }

  /** Nothing but a pass ends processes, and it is another one. */
  #isInnocent(book: Book): boolean {
    const { faults, evil, passes } = this.#plan
    const all = (some: PassPlan[]): PassPlan[] => some.flatMap((pass) => [pass, ...all(pass.children)])
    const pass = all(passes).find(({ name }) => name === this.#names.get(book.key))
    return faults.length === 0 && evil.length === 0 && pass !== undefined && pass.does !== 'kills'
  }

  /** What nobody can read begins nothing: it is refused as such, or ended by who ends what nobody answers. */
  #judgeUnreadable(kept: Kept, book: Book, { kind }: StepText): void {
    const asked = this.#log.get(book.answers ?? 0)
    if (!asked?.spoilt || kept.by === 'evil') return
    const code = header(kept, 'Passover-Code') ?? ''
    if (kind !== 'return')
      this.blame('P3', 'unreadable_begun', `${book.key} is begun by request ${asked.sequence}, which is ${asked.spoilt}`)
    else if (!['E005', 'E010', 'E043'].includes(code))
      this.blame('P2', 'unreadable_told', `${book.key} ends with ${code}, and request ${asked.sequence} is ${asked.spoilt}`)
  }

  /** The refusal of a request under a name of its own: nobody could read it, or another request has its id. */
  #apart({ originator, subagent }: Pick<Book, 'originator' | 'subagent'>, sequence: number): Book | undefined {
    const apart = this.books.get(`${originator}/${subagent}/bad-${String(sequence).padStart(9, '0')}`)
    return apart?.answers === sequence ? apart : undefined
  }

  isAnsweredApart(between: Pick<Book, 'originator' | 'subagent'>, sequence: number): boolean {
    return this.#apart(between, sequence) !== undefined
  }

  /** Whether it is the refusal of a request that could not be read. Nothing is known of the pass but what subject and headers say. */
  isUnread({ ended, answers, work, held }: Book): boolean {
    return this.#log.get(answers ?? 0)?.spoilt !== undefined && ended?.code === 'E005' && work === 0 && !held
  }

  /** Whether it is such a refusal in time. After its id expired, a refusal is an answer and no pass (rule 5). */
  refusesUnread(book: Book): boolean {
    const { ended, answers, id } = book
    if (!ended || !this.isUnread(book)) return false
    return ended.kept.time - (timeOf(id) ?? this.timeOf(answers ?? 0)) <= this.#plan.id_window_ms
  }

  /** The passes that answer a request: its own, or that of an earlier one with the same bytes, or one under its own number. */
  answersOf(request: Kept): Book[] {
    const [, b = '', a = ''] = request.subject.split('.')
    const apart = this.#apart({ originator: a, subagent: b }, request.sequence)
    const id = header(request, 'Passover-Id')
    const own = id === undefined ? undefined : this.books.get(`${a}/${b}/${id}`)
    const answered = this.#log.get(own?.answers ?? 0)
    const repeats = answered?.spoilt !== undefined && Buffer.compare(answered.data, request.data) === 0
    // A request that arrives after its id was forgotten is refused again; the record keeps the first end.
    const refuses = (kept: Kept) => kept.by !== 'evil' && header(kept, 'Passover-Request') === String(request.sequence)
    const again = own?.ended && isDeleted(own.ended.kept) && this.messagesOf(own.key).some(refuses)
    return [apart, answered === request || repeats || again ? own : undefined].filter((one) => one !== undefined)
  }

  /** P3: what a pass hangs below comes from the stream. */
  #judgeWork(kept: Kept, book: Book): void {
    const above = book.ancestors
    if (above.at(-1) !== book.originator) this.blame('P3', 'ancestry', `${book.key} stands below ${above.join(' ')}`)
    if (new Set([...above, book.subagent]).size <= above.length) this.blame('P3', 'loop', `${book.key} is a loop: ${above.join(' ')}`)
    if (above.length > MAX_DEPTH) this.blame('P3', 'depth', `${book.key} is ${above.length} deep`)
    const parent = book.parent === undefined ? undefined : this.books.get(book.parent)
    if (book.parent === undefined) {
      if (above.length !== 1) this.blame('P3', 'orphan', `${book.key} names no parent, and has ancestors`)
      return
    }
    if (!parent || parent.subagent !== book.originator || [...parent.ancestors, book.originator].join() !== above.join())
      this.blame('P3', 'parent', `${book.key} says ${book.parent} is above it`)
    // What it was granted when it was sent: how long that was on its way nobody knew, and the cascade ends it with its parent.
    const granted_until = book.deadline - (kept.time - kept.sent_at)
    if (parent && granted_until > parent.deadline + this.#clockError())
      this.blame('P5', 'deadline', `${book.key} may last ${book.deadline - parent.deadline} ms longer than its parent`)
    const granted = controlIn(kept)?.budget?.passes
    if (granted !== undefined && granted < 0) this.blame('P5', 'budget', `${book.key} is granted ${granted} passes`)
  }

  /** By how much a dispatcher's clock may be behind: while answers are late it knows the time to within a round trip only. */
  #clockError(): number {
    const now = this.#world.time
    const storms = this.#plan.faults.filter((fault) => fault.kind === 'storm')
    const late = storms
      .filter(({ at, ms, late_ms }) => at <= now && now <= at + ms + late_ms + MEASURED_AGAIN_MS)
      .map(({ late_ms }) => late_ms)
    return CLOCK_MS + Math.max(0, ...late)
  }

  /** P3: who asks for a child must be the newest attempt of a pass that is open, when it asks. What changes after that, the timekeeper ends. */
  #judgeProof(kept: Kept, book: Book): void {
    const parent = book.parent === undefined ? undefined : this.books.get(book.parent)
    const asked = book.answers ?? 0
    if (!parent || asked === 0 || book.valid !== kept.sequence) return
    const proves = [parent.work, ...parent.fences.map(({ sequence }) => sequence)].includes(book.proof ?? 0)
    const newer = parent.fences.some(({ sequence }) => sequence > (book.proof ?? 0) && sequence < asked)
    if (!proves || newer)
      this.blame('P3', 'proof', `${book.key} is begun, and its proof (${book.proof}) is not of its parent's newest attempt`)
    if (parent.ended && parent.ended.kept.sequence < asked)
      this.blame('P3', 'ended_parent', `${book.key} is begun, and ${parent.key} had ended before it was asked for`)
  }

  acked(consumer: string, sequence: number): void {
    const kept = this.#log.get(sequence)
    if (!kept || kept.by === 'bounce') return
    const step = stepIn(kept.subject)
    if (step) {
      const book = this.book(step)
      if (book.state !== 'done') this.blame('P2', 'ack_open', `work ${sequence} is acknowledged, ${book.key} is open`)
      return
    }
    if (!consumer.startsWith('dispatcher')) return
    const [kind, a = '', b = '', c = ''] = kept.subject.split('.')
    const id = header(kept, 'Passover-Id')
    const asks = kind === 'request' && !this.isAnsweredApart({ originator: b, subagent: a }, sequence)
    if (asks && (!id || this.book({ originator: b, subagent: a, id }).state === 'none'))
      this.blame('P2', 'ack_unbegun', `request ${sequence} is acknowledged, its journal is empty`)
    if (kind !== 'decision') return
    const book = this.book({ originator: a, subagent: b, id: c })
    if (book.state === 'held' && header(kept, 'Passover-Digest') === book.digest && kept.time < book.deadline)
      this.blame('P2', 'ack_held', `decision ${sequence} is acknowledged, ${book.key} is still held`)
  }

  /** What the request of a pass says; empty: it is not known. */
  askedFor({ answers }: Book): ReturnType<typeof askedIn> {
    const kept = this.#log.get(answers ?? 0)
    return kept ? askedIn(kept) : {}
  }

  /** When a message was stored, server ms. */
  timeOf(sequence: number): number {
    return this.#log.get(sequence)?.time ?? 0
  }

  /** The passes that a planned one became: one, but for children, which each attempt of their parent asks for anew. */
  keysOf(name: string): string[] {
    return [...(this.#keys.get(name) ?? [])]
  }

  /** The planned pass that became this one. */
  nameOf(key: string): string | undefined {
    return this.#names.get(key)
  }

  /** Everything that was stored of a pass, deleted or not, with all requests for its id. */
  messagesOf(key: string): readonly Kept[] {
    return this.#messages.get(key) ?? []
  }

  isTold(about: Told): void {
    const told = { ...about, book: this.books.get(about.key) }
    this.told.push(told)
    const reason = told.book && this.askedFor(told.book).reason
    for (const { promise, kind, text } of wrongIn(told, { reason, now: this.#world.now })) this.blame(promise, kind, text)
  }

  isAsked(name: string, key: string): void {
    this.#keys.set(name, (this.#keys.get(name) ?? new Set()).add(key))
    this.#names.set(key, name)
  }

  /** A handler begins to run. `work`: the sequence of the work step that was delivered. */
  began(about: Omit<StepText, 'kind' | 'by'>, attempt: number): void {
    const book = this.book(about)
    const name = `${book.key} ${attempt}`
    const times = (this.#begun.get(name) ?? 0) + 1
    this.#begun.set(name, times)
    if (times > 1) this.blame('P1', 'run_twice', `attempt ${attempt} of ${book.key} begins ${times} times`)
    if (attempt > MAX_ATTEMPTS) this.blame('P1', 'attempts', `attempt ${attempt} of ${book.key} runs`)
    if (book.work === 0) this.blame('P1', 'run_unadmitted', `${book.key} runs, and was never admitted`)
    const over = this.#world.now - book.deadline
    if (over > CLOCK_MS) this.blame('P5', 'run_over', `attempt ${attempt} of ${book.key} begins ${over} ms after its deadline`)
    // Not promised: that it begins before its return is stored. But what was long gone must not run.
    if (book.ended && isDeleted(book.ended.kept)) this.blame('P1', 'run_gone', `${book.key} runs after it was deleted`)
  }
}
