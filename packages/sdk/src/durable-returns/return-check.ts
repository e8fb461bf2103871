import type { Bus } from '@passover/bus'
import { judgeReturnByWork, mayCount, type ReturnValidity } from '@passover/core'
import { keyText, type Step, SYSTEM } from '@passover/schemas'
import { type AuditAnswer, askAudit } from '../journal/poll.js'

/**
 * Distinguishes the return that ended a pass from invalid returns. A subagent may store any number of these, for ids that were never requested from
 * it or for a pass that has ended.
 */
export class ReturnCheck {
  readonly #bus: Bus
  /**
   * Last query about a pass of each subagent. Queries are sequential per subagent, so that the returns of one subagent do not use up the agent's
   * queries.
   */
  readonly #turns = new Map<string, Promise<unknown>>()
  readonly #asking = new Map<string, Promise<AuditAnswer>>()

  constructor(bus: Bus) {
    this.#bus = bus
  }

  /** Judges a return by its headers and exact gets, without the audit service. Takes a hundredth of the time of a query. */
  async judgeByHeaders(returned: Step): Promise<ReturnValidity> {
    if (returned.by === SYSTEM || !mayCount(returned)) return judgeReturnByWork(returned, [])
    const works = (await this.#bus.journal.glimpse(returned.key)).filter(({ kind }) => kind === 'work')
    // A pass is deleted only after its return was acknowledged or is overdue. A lagging replica may not have the work yet.
    return works.length === 0 && this.#bus.clustered ? 'unclear' : judgeReturnByWork(returned, works)
  }

  /** Asks the audit service, which reads the journal from the leader of the stream. */
  async judgeByAudit(returned: Step): Promise<ReturnValidity> {
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
    const answer = await turn
    if (this.#turns.get(key.subagent) === turn) this.#turns.delete(key.subagent)
    return answer
  }
}

/**
 * Judges a return by the audit service's answer, which covers the pass up to `last_sequence`. An id may be used again only after its earlier pass was
 * deleted completely, and then that return was acknowledged or is overdue.
 */
function judge({ sequence }: Step, answer: AuditAnswer): ReturnValidity {
  if (answer.kind === 'unanswered') return 'unclear'
  if (answer.kind === 'unknown') return 'nothing'
  const { return_sequence, last_sequence } = answer.pass.row
  if (return_sequence === sequence) return 'counts'
  return last_sequence >= sequence || (return_sequence !== undefined && return_sequence < sequence) ? 'nothing' : 'unclear'
}
