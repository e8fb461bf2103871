import type { Bus } from '@passover/bus'
import { judgeReturnByWork, mayCount, type ReturnValidity } from '@passover/core'
import { keyText, type Step, SYSTEM } from '@passover/schemas'
import { type AuditAnswer, askAudit } from '../journal/poll.js'

/**
 * Tells the return that ended a pass from returns that count for nothing. A subagent may store any number of these: for ids that nobody
 * asked it for, and again for a pass that has ended.
 */
export class ReturnCheck {
  readonly #bus: Bus
  /** The last question about a pass of each subagent. One at a time, so that one subagent's returns do not use up the agent's questions. */
  readonly #turns = new Map<string, Promise<unknown>>()
  readonly #asking = new Map<string, Promise<AuditAnswer>>()

  constructor(bus: Bus) {
    this.#bus = bus
  }

  /** Judges by headers and exact gets, without the audit. Costs a hundredth of a question. */
  async look(returned: Step): Promise<ReturnValidity> {
    if (returned.by === SYSTEM || !mayCount(returned)) return judgeReturnByWork(returned, [])
    const works = (await this.#bus.journal.glimpse(returned.key)).filter(({ kind }) => kind === 'work')
    // A pass is deleted only once its return was acknowledged or is overdue. A replica that is behind may not have the work yet.
    return works.length === 0 && this.#bus.clustered ? 'unclear' : judgeReturnByWork(returned, works)
  }

  /** Asks the audit, which reads the journal as the leader of the stream has it. */
  async ask(returned: Step): Promise<ReturnValidity> {
    const text = keyText(returned.key)
    let asking = this.#asking.get(text)
    if (!asking) {
      asking = this.#inTurn(returned)
      this.#asking.set(text, asking)
      void asking.then(() => this.#asking.delete(text))
    }
    return judge(returned, await asking)
  }

  async #inTurn({ key }: Step): Promise<AuditAnswer> {
    const turn = (this.#turns.get(key.subagent) ?? Promise.resolve()).then(() => askAudit(this.#bus, key))
    this.#turns.set(key.subagent, turn)
    const asked = await turn
    if (this.#turns.get(key.subagent) === turn) this.#turns.delete(key.subagent)
    return asked
  }
}

/**
 * A pass is read up to `last_sequence`. An id may be used again, but only when nothing of its earlier pass is in the stream any more, and
 * then that return was acknowledged or is overdue.
 */
function judge({ sequence }: Step, asked: AuditAnswer): ReturnValidity {
  if (asked.kind === 'unanswered') return 'unclear'
  if (asked.kind === 'unknown') return 'nothing'
  const { return_sequence, last_sequence } = asked.pass.row
  if (return_sequence === sequence) return 'counts'
  return last_sequence >= sequence || (return_sequence !== undefined && return_sequence < sequence) ? 'nothing' : 'unclear'
}
