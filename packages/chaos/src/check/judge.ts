import { guardOf, idInBody, publishedByServer, type StepSubject, SYSTEM, timeOfId } from './step.js'
import { TimeLimits } from './time-limits.js'
import type { CheckerOptions, Judgement, PassFound, PromiseName, StoredMessage, Violation } from './types.js'

/**
 * An independent judge of a stream. It shares no code with the product (no core, no bus, no schemas), so that it cannot repeat a defect in the
 * product's fold. It reads all stored messages, folds each pass by docs/architecture/invariants.md#the-fold, and reports violations.
 */

type State = { at: 'none' } | { at: 'held' } | { at: 'open'; attempt: number } | { at: 'done' }

interface Journal {
  found: PassFound
  state: State
  /** Sequence of the last step, counted or not; 0 if there is none. */
  last: number
  /** Sequence of the last return by the system, counted or not; 0 if there is none. */
  last_system_return: number
}

const STEPS = ['held', 'work', 'fence', 'return']
const PRIORITIES = ['high', 'medium', 'low']

/** Judges the messages of a stream. `now` is the server's time in milliseconds. */
export function judge(records: Iterable<StoredMessage>, now: number, options: CheckerOptions = {}): Judgement {
  const judging = new Judging(now, options)
  for (const record of records) judging.take(record)
  return judging.conclude()
}

class Judging {
  readonly #now: number
  readonly #prefix: string
  readonly #limits: TimeLimits
  readonly #window: number
  readonly #journals = new Map<string, Journal>()
  readonly #requests: { record: StoredMessage; key: string | undefined; bad: string }[] = []
  /** Keys under which requests that cannot be read are answered. */
  readonly #unreadable = new Set<string>()
  readonly #ignored: string[] = []
  readonly #violations: Violation[] = []
  #messages = 0

  constructor(now: number, options: CheckerOptions) {
    this.#now = now
    this.#prefix = options.prefix ? `${options.prefix}.` : ''
    this.#limits = new TimeLimits(options)
    this.#window = options.id_window_ms ?? 3_600_000
  }

  take(record: StoredMessage): void {
    this.#messages += 1
    if (!record.subject.startsWith(this.#prefix)) return
    const tokens = record.subject.slice(this.#prefix.length).split('.')
    const [kind = '', a = '', b = '', id = '', by = ''] = tokens
    if (kind === 'request' && tokens.length === 3) this.#request(record, { subagent: a, originator: b })
    if (STEPS.includes(kind) && tokens.length === 5) this.#step(record, { kind, originator: a, subagent: b, id, by })
  }

  #request(record: StoredMessage, { subagent, originator }: { subagent: string; originator: string }): void {
    const id = record.header('Passover-Id') ?? idInBody(record.data)
    const of = (name: string) => `${originator}/${subagent}/${name}`
    const key = id === undefined ? undefined : of(id)
    // Requests whose subject has invalid names are answered under the name `nobody`.
    const named = [originator, subagent].every((name) => /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(name))
    const number = `bad-${String(record.sequence).padStart(9, '0')}`
    const bad = named ? of(number) : `nobody/nobody/${number}`
    this.#requests.push({ record, key, bad })
    this.#unreadable.add(bad)
    if (key !== undefined) this.#journal(key).found.requests.push(record.sequence)
  }

  #journal(key: string): Journal {
    const known = this.#journals.get(key)
    if (known) return known
    const made: Journal = {
      found: { key, requests: [], held: 0, works: 0, attempts: 0, returns: 0, fences: [] },
      state: { at: 'none' },
      last: 0,
      last_system_return: 0,
    }
    this.#journals.set(key, made)
    return made
  }

  #step(record: StoredMessage, step: StepSubject): void {
    const key = `${step.originator}/${step.subagent}/${step.id}`
    const journal = this.#journal(key)
    const { last, last_system_return } = journal
    journal.last = record.sequence
    if (step.kind === 'return' && step.by === SYSTEM) journal.last_system_return = record.sequence
    const why = this.#impossible(journal.state, record, step)
    const guard = guardOf(record, step, this.#prefix)
    const told = `${key}: ${step.kind} by ${step.by} (${record.sequence})`
    if (guard === undefined) this.#ignored.push(`${told} was published without a guard${why ? ` and does not count: ${why}` : ''}`)
    else {
      const before = guard.covers === 'journal' ? last : last_system_return
      if (guard.sequence !== before) this.#broken('P1', `${told} names ${guard.sequence} as the step before, the server had ${before}`)
    }
    if (why) {
      if (guard !== undefined) this.#ignored.push(`${told} does not count: ${why}`)
      return
    }
    this.#count(journal, record, step)
  }

  /** Returns the reason why a step does not count, or `undefined` if it counts. */
  #impossible(state: State, record: StoredMessage, step: StepSubject): string | undefined {
    if (publishedByServer(record)) return 'the server published it'
    const attempt = Number(record.header('Passover-Attempt') ?? 0)
    const system = step.by === SYSTEM
    if (state.at === 'done') return 'the pass had its return'
    const expiry = step.kind === 'return' && system && record.header('Passover-Code') === 'E005'
    if (state.at === 'none' && !expiry && this.#tooLate(record, step)) return 'its id was past its window'
    if (step.kind === 'held') return state.at === 'none' && system ? undefined : `held when ${state.at}`
    if (step.kind === 'work') return state.at !== 'open' && PRIORITIES.includes(step.by) ? undefined : `work when ${state.at}`
    if (step.kind === 'fence') {
      if (state.at !== 'open' || step.by !== step.subagent) return `fence when ${state.at}`
      return attempt === state.attempt + 1 ? undefined : `attempt ${attempt} after ${state.attempt}`
    }
    if (system) return undefined
    if (state.at !== 'open' || step.by !== step.subagent) return `return by ${step.by} when ${state.at}`
    return attempt === state.attempt ? undefined : `return of attempt ${attempt} in attempt ${state.attempt}`
  }

  /** Rule 5: after the id window only a return with "expired" may begin a journal. */
  #tooLate(record: StoredMessage, step: StepSubject): boolean {
    const from = timeOfId(step.id) ?? Number(record.header('Passover-Requested-At') ?? Number.NaN)
    return record.time - from > this.#window
  }

  #count(journal: Journal, record: StoredMessage, step: StepSubject): void {
    const { found } = journal
    const parent = record.header('Passover-Parent')
    if (journal.state.at === 'none') found.begun = record.time
    if (parent !== undefined) found.parent = { key: parent, proof: Number(record.header('Passover-Proof')) }
    const timeout = Number(record.header('Passover-Timeout'))
    switch (step.kind) {
      case 'held':
        found.held += 1
        found.deadline = record.time + Number(record.header('Passover-Expires'))
        journal.state = { at: 'held' }
        return
      case 'work':
        found.works += 1
        found.attempts = 1
        found.deadline = record.time + timeout
        journal.state = { at: 'open', attempt: 1 }
        return
      case 'fence':
        found.attempts += 1
        found.fences.push({ sequence: record.sequence, time: record.time })
        journal.state = { at: 'open', attempt: found.attempts }
        return
      default:
        found.returns += 1
        found.ended = {
          sequence: record.sequence,
          time: record.time,
          by: step.by,
          code: record.header('Passover-Code'),
          status: record.header('Passover-Status'),
          attempt: Number(record.header('Passover-Attempt') ?? 0),
        }
        journal.state = { at: 'done' }
    }
  }

  conclude(): Judgement {
    const passes = new Map([...this.#journals].map(([key, { found }]) => [key, found]))
    for (const found of passes.values()) this.#judgePass(found, passes)
    for (const { record, key, bad } of this.#requests) this.#judgeRequest(record, [key, bad])
    const begun = [...passes.values()].filter((found) => found.begun !== undefined)
    const by_code: Record<string, number> = {}
    for (const { ended } of begun) if (ended) by_code[ended.code ?? 'ok'] = (by_code[ended.code ?? 'ok'] ?? 0) + 1
    const ended = begun.filter((found) => found.ended).length
    return {
      passes,
      problems: this.#violations.map(({ what }) => what),
      violations: this.#violations,
      ignored: this.#ignored,
      totals: {
        messages: this.#messages,
        requests: this.#requests.length,
        passes: begun.length,
        ended,
        open: begun.length - ended,
        fences: begun.reduce((sum, found) => sum + found.fences.length, 0),
        by_code,
      },
    }
  }

  #broken(promise: PromiseName, what: string): void {
    this.#violations.push({ promise, what })
  }

  #judgePass(found: PassFound, passes: Map<string, PassFound>): void {
    const { key, deadline, ended, begun } = found
    if (begun === undefined) return
    if (found.returns > 1) this.#broken('P2', `${key}: ${found.returns} returns count`)
    if (found.works > 1) this.#broken('P1', `${key}: ${found.works} work steps count`)
    if (found.requests.length === 0 && !this.#unreadable.has(key)) this.#broken('P4', `${key}: a journal without a request`)
    if (deadline !== undefined && Number.isNaN(deadline)) this.#broken('P2', `${key}: its step does not say when it must end`)
    const latest = this.#limits.ofDeadline(deadline ?? Number.POSITIVE_INFINITY)
    if (!ended && this.#now > latest) this.#broken('P2', `${key}: still open ${this.#now - (deadline ?? 0)} ms past its deadline`)
    if (ended && ended.time > latest) this.#broken('P2', `${key}: ended ${ended.time - (deadline ?? 0)} ms past its deadline`)
    this.#judgeChild(found, passes)
  }

  /** Checks that a child ends when its parent ends or begins an attempt later than the one that its proof names. */
  #judgeChild(found: PassFound, passes: Map<string, PassFound>): void {
    const parent = found.parent && passes.get(found.parent.key)
    if (!found.parent || found.works === 0) return
    if (!parent) {
      this.#broken('P3', `${found.key}: its parent ${found.parent.key} is not in the stream`)
      return
    }
    const { proof } = found.parent
    const lost = parent.fences.find((fence) => fence.sequence > proof)?.time ?? parent.ended?.time
    if (lost === undefined) return
    const mustEnd = this.#limits.ofCascade(Math.max(lost, found.begun ?? 0))
    const end = found.ended?.time ?? this.#now
    if (end > mustEnd) this.#broken('P5', `${found.key}: outlives its parent ${parent.key} by ${end - lost} ms`)
  }

  #judgeRequest(record: StoredMessage, keys: (string | undefined)[]): void {
    const answered = keys.some((key) => key !== undefined && (this.#journals.get(key)?.last ?? 0) > 0)
    if (answered) return
    const timeout = Number(record.header('Passover-Timeout') ?? 30_000)
    const waited = this.#now - record.time
    if (this.#now > this.#limits.ofDeadline(record.time + timeout))
      this.#broken('P2', `request ${record.sequence} (${keys[0] ?? 'without id'}) has no answer after ${waited} ms`)
  }
}
