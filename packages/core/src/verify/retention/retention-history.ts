import { policyBody, policyDigest } from '@passover/schemas'

/** Default retention in days. */
const RETENTION_DAYS = 30
const DAY_MS = 86_400_000
/** Slack for clock differences, and for the delay until a version of the policy reaches the audit service. */
export const SLACK_MS = 60_000

/** Retention of the archive by one version of the policy; version 0 means the defaults. */
export interface Retention {
  version: number
  days: number
  /** Time of publication, server ms. */
  since: number
}

/**
 * History of the retention setting, from the published versions of the policy (decision 87). The current setting does not justify earlier removals.
 */
export class RetentionHistory {
  readonly #known: Retention[]

  /** @param whole - true if the versions are read from the first one. Otherwise the setting before the first one read is unknown. */
  constructor(whole: boolean) {
    this.#known = whole ? [{ version: 0, days: RETENTION_DAYS, since: Number.NEGATIVE_INFINITY }] : []
  }

  /** Reads the body of a version. Invalid bodies and outdated versions are ignored. */
  take({ body, time }: { body: unknown; time: number }): void {
    const parsed = policyBody.safeParse(body)
    if (!parsed.success) return
    const { version, document, digest } = parsed.data
    const newest = this.#known.at(-1)?.version
    if (digest !== policyDigest(document) || (newest !== undefined && version <= newest)) return
    if (newest !== undefined && version > newest + 1) this.#known.length = 0
    this.#known.push({ version, days: document.audit?.retention_days ?? RETENTION_DAYS, since: time })
  }

  /** Returns the days of retention in a version, or `undefined` if unknown. */
  daysOf(version: number): number | undefined {
    return this.#known.find((one) => one.version === version)?.days
  }

  /** Returns the shortest retention in force at any moment of a time span, or `undefined` if part of the span is unknown. */
  least(from: number, to: number): Retention | undefined {
    if ((this.#known[0]?.since ?? Number.POSITIVE_INFINITY) > from) return undefined
    const then = this.#known.filter(({ since }, at) => since <= to && (this.#known[at + 1]?.since ?? Number.POSITIVE_INFINITY) > from)
    return then.reduce((least, one) => (one.days < least.days ? one : least))
  }

  /**
   * Returns until when (server ms) a message stored at `time` had to be kept: by the retention in force when it was stored, and by the one in force
   * when it could first have been removed. A version published at that very moment may not have been read. `undefined` if the retention at that time
   * is unknown.
   */
  keptUntil(time: number): number | undefined {
    const promised = this.least(time, time)
    if (!promised) return undefined
    for (const [at, { days, since }] of this.#known.entries()) {
      const until = Math.max(since, time + Math.max(days, promised.days) * DAY_MS)
      if (until < (this.#known[at + 1]?.since ?? Number.POSITIVE_INFINITY) + SLACK_MS) return until
    }
    return undefined
  }
}
