import type { Bus } from '@passover/bus'
import { decode } from '@passover/bus'
import { HEADER, policyBody } from '@passover/schemas'

/** A policy change: from this sequence on, `on` says whether passes get records. */
interface LoggingChange {
  from: number
  on: boolean
}

/**
 * Decides which passes get records and are exported, by the audit's own setting and by `audit.log_all_passes` of the policy version that was in force
 * at the time.
 */
export class LoggingHistory {
  readonly #isOn: boolean
  readonly #changes: LoggingChange[] = [{ from: 0, on: true }]
  #newest = 0

  private constructor(isOn: boolean) {
    this.#isOn = isOn
  }

  /** Reads every policy version; they stay in the stream for good. */
  static async read(bus: Bus, isOn: boolean): Promise<LoggingHistory> {
    const logged = new LoggingHistory(isOn)
    await using reader = await bus.follow({ filters: [bus.subjects.all('policy')] }, ({ sequence, data, headers }, fact) => {
      if (fact.type === 'untrusted') return
      const decoded = decode(data, headers.get(HEADER.contentType))
      const parsed = policyBody.safeParse(decoded.ok ? decoded.value : undefined)
      // Only the next version counts (decision 28).
      if (!parsed.success || parsed.data.version !== logged.#newest + 1) return
      logged.#newest++
      logged.#changes.push({ from: sequence, on: parsed.data.document.audit?.log_all_passes !== false })
    })
    await Promise.race([reader.caughtUp, reader.closed])
    return logged
  }

  /** True if a pass whose last message has this sequence gets a record if it has none yet. */
  at(sequence: number): boolean {
    return this.#isOn && (this.#changes.findLast(({ from }) => from <= sequence)?.on ?? true)
  }
}
