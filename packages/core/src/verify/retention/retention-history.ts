import { policyBody, policyDigest } from '@passover/schemas'

/** Days, where the policy names none. */
const RETENTION_DAYS = 30
const DAY_MS = 86_400_000
/** Clocks differ, and a version of the policy reaches an audit a little later. */
export const SLACK_MS = 60_000

/** How long the archive had to keep by one version of the policy; 0 stands for the defaults. */
export interface Retention {
  version: number
  days: number
  /** When it was published, server ms. */
  since: number
}

/** Which retention was in force when, as the published versions of the policy say (decision 87): what is in force today excuses nothing of before. */
export class RetentionHistory {
  private readonly known: Retention[]

  /** `whole`: they are read from the first on. Else what was in force before the first that comes by is not known. */
  constructor(whole: boolean) {
    this.known = whole ? [{ version: 0, days: RETENTION_DAYS, since: Number.NEGATIVE_INFINITY }] : []
  }

  /** The body of a version. What is none, or came too late, changes nothing. */
  take({ body, time }: { body: unknown; time: number }): void {
    const parsed = policyBody.safeParse(body)
    if (!parsed.success) return
    const { version, document, digest } = parsed.data
    const newest = this.known.at(-1)?.version
    if (digest !== policyDigest(document) || (newest !== undefined && version <= newest)) return
    if (newest !== undefined && version > newest + 1) this.known.length = 0
    this.known.push({ version, days: document.audit?.retention_days ?? RETENTION_DAYS, since: time })
  }

  /** How many a version keeps; undefined: it is not known. */
  daysOf(version: number): number | undefined {
    return this.known.find((one) => one.version === version)?.days
  }

  /** The least that was in force at any moment of a span; undefined: not all of it is known. */
  least(from: number, to: number): Retention | undefined {
    if ((this.known[0]?.since ?? Number.POSITIVE_INFINITY) > from) return undefined
    const then = this.known.filter(({ since }, at) => since <= to && (this.known[at + 1]?.since ?? Number.POSITIVE_INFINITY) > from)
    return then.reduce((least, one) => (one.days < least.days ? one : least))
  }

  /**
   * Until when (server ms) something of `time` had to stay: as long as was promised when it was stored, and as long as whatever was in force when
   * it could first have gone; a version that came in the very moment may not have been read. Undefined: what was in force then is not known.
   */
  keptUntil(time: number): number | undefined {
    const promised = this.least(time, time)
    if (!promised) return undefined
    for (const [at, { days, since }] of this.known.entries()) {
      const until = Math.max(since, time + Math.max(days, promised.days) * DAY_MS)
      if (until < (this.known[at + 1]?.since ?? Number.POSITIVE_INFINITY) + SLACK_MS) return until
    }
    return undefined
  }
}
