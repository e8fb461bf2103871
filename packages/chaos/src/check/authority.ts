import { decode } from '@msgpack/msgpack'
import { TimeLimits } from './time-limits.js'
import type { CheckerOptions, Judgement, PassFound, StoredMessage, Violation } from './types.js'
import type { Checked } from './verdict.js'

interface Held {
  sequence: number
  digest: string | undefined
  /** Decisions about its dispatch, in order. */
  decisions: { sequence: number; verdict: string | undefined; digest: string | undefined }[]
}

/**
 * Checks P3 and P5 in the stream. The chain in each work step matches the steps of its parents and contains no loop. The deadline of a child is
 * within its parent's. A held pass is dispatched only after a person's approval of the same digest. A cancelled pass ends.
 */
export function checkAuthority(records: Iterable<StoredMessage>, judgement: Judgement, options: CheckerOptions): Checked {
  const checking = new Authority(judgement, new TimeLimits(options))
  for (const record of records) checking.take(record)
  return checking.conclude()
}

class Authority {
  readonly #passes: Judgement['passes']
  readonly #limits: TimeLimits
  readonly #violations: Violation[] = []
  /** Ancestors in the first work step of each pass. */
  readonly #claimed = new Map<string, string[]>()
  readonly #works = new Map<string, number>()
  readonly #held = new Map<string, Held>()
  readonly #cancelled = new Map<string, number>()
  #unreadable = 0

  constructor({ passes }: Judgement, limits: TimeLimits) {
    this.#passes = passes
    this.#limits = limits
  }

  take(record: StoredMessage): void {
    const [kind = '', a = '', b = '', id = '', what = '', by = ''] = record.subject.split('.')
    const key = `${a}/${b}/${id}`
    if (kind === 'work' && !this.#works.has(key)) {
      this.#works.set(key, record.sequence)
      this.#claim(key, a, record)
    }
    if (kind === 'held') this.#held.set(key, { sequence: record.sequence, digest: record.header('Passover-Digest'), decisions: [] })
    if (kind === 'decision' && what === 'dispatch')
      this.#held
        .get(key)
        ?.decisions.push({
          sequence: record.sequence,
          verdict: record.header('Passover-Verdict'),
          digest: record.header('Passover-Digest'),
        })
    if (kind === 'event' && what === 'cancel' && by === a && !this.#cancelled.has(key)) this.#cancelled.set(key, record.time)
  }

  #claim(key: string, originator: string, record: StoredMessage): void {
    try {
      const body = decode(record.data) as { control?: { ancestors?: string[] } }
      this.#claimed.set(key, body.control?.ancestors ?? [originator])
    } catch {
      this.#unreadable += 1
      this.#violations.push({ promise: 'P3', what: `${key}: its work step cannot be read` })
    }
  }

  conclude(): Checked {
    let deepest = 0
    for (const [key, claimed] of this.#claimed) deepest = Math.max(deepest, this.#chain(key, claimed))
    for (const key of this.#works.keys()) this.#withinParent(key)
    for (const [key, held] of this.#held) this.#approved(key, held)
    for (const [key, time] of this.#cancelled) this.#stopped(key, time)
    const codes = [...this.#passes.values()].map(({ ended }) => ended?.code)
    const decided = [...this.#held.values()].flatMap(({ decisions }) => decisions.slice(0, 1))
    return {
      counts: {
        P3: { 'chains read': this.#claimed.size, deepest, 'loops refused': codes.filter((code) => code === 'E003').length },
        P5: {
          held: this.#held.size,
          approved: decided.filter(({ verdict }) => verdict === 'approve').length,
          denied: decided.filter(({ verdict }) => verdict === 'deny').length,
          cancelled: this.#cancelled.size,
        },
      },
      violations: this.#violations,
    }
  }

  /** Checks the chain of a pass and returns its length in passes, itself included. */
  #chain(key: string, claimed: readonly string[]): number {
    const found = this.#ancestorsOf(key)
    if (found.join(' ') !== claimed.join(' '))
      this.#violations.push({
        promise: 'P3',
        what: `${key}: it names ${claimed.join(' → ')} as its ancestors, the stream ${found.join(' → ')}`,
      })
    const chain = [...found, key.split('/')[1] ?? '']
    if (new Set(chain).size < chain.length)
      this.#violations.push({ promise: 'P3', what: `${key}: a loop was dispatched: ${chain.join(' → ')}` })
    return found.length
  }

  /** Returns the originators of the chain, root first, from the parents in the headers of the steps. */
  #ancestorsOf(key: string): string[] {
    const above: string[] = []
    const seen = new Set<string>()
    for (let at: string | undefined = key; at !== undefined && !seen.has(at); at = this.#passes.get(at)?.parent?.key) {
      seen.add(at)
      above.unshift(at.split('/')[0] ?? '')
    }
    return above
  }

  #withinParent(key: string): void {
    const found = this.#passes.get(key)
    const parent = found?.parent && this.#passes.get(found.parent.key)
    if (!found?.deadline || !parent?.deadline) return
    const over = found.deadline - parent.deadline
    // The granted time counts from admission, but the deadline counts from the time at which the step was stored.
    if (found.deadline > this.#limits.ofDeadline(parent.deadline))
      this.#violations.push({ promise: 'P5', what: `${key}: its deadline is ${over} ms after its parent's` })
  }

  #approved(key: string, { sequence, digest, decisions }: Held): void {
    const work = this.#works.get(key)
    if (work === undefined || work < sequence) return
    const first = decisions[0]
    if (first?.verdict === 'approve' && first.digest === digest && first.sequence < work) return
    this.#violations.push({ promise: 'P5', what: `${key}: it was held and dispatched without an approval of what was shown` })
  }

  #stopped(key: string, time: number): void {
    const found: PassFound | undefined = this.#passes.get(key)
    const ended = found?.ended
    if (found?.begun === undefined) return
    const latest = this.#limits.ofCascade(Math.max(time, found.begun))
    if (!ended || ended.time > latest)
      this.#violations.push({
        promise: 'P5',
        what: `${key}: it was cancelled and went on for ${ended ? `${ended.time - time} ms` : 'good'}`,
      })
  }
}
