import { type Bus, type CurrentPolicy, decode, PolicyStore } from '@passover/bus'
import { HEADER, policyBody } from '@passover/schemas'

/** Where the policy names nothing. */
const RETENTION_DAYS = 30

export interface RetentionLimits {
  days: number
  /** The version of the policy; 0: the defaults. */
  policy: number
}

/** Whether passes get records: as this process was told, and as the policy in force says (`audit.log_all_passes`). */
export class LoggingPolicy {
  private said = true
  /** How long the archive keeps, and by which version; undefined: what is in force cannot be read, or could not the last time. */
  retention: RetentionLimits | undefined

  /** `told` false: whatever the policy says. */
  constructor(
    private readonly store: { stand(): Promise<CurrentPolicy> },
    private readonly told: boolean,
    /** Whether a newer version of the policy than this was published; 0: any. */
    private readonly isBehind: (version: number) => Promise<boolean> = async () => false,
  ) {}

  /** Throws where the policy cannot be read: nothing is recorded before it is known. */
  static async open(bus: Bus, told: boolean): Promise<LoggingPolicy> {
    const isBehind = async (version: number) => (await newestPublished(bus)) > version
    const logging = new LoggingPolicy(await PolicyStore.open(bus), told, isBehind)
    await logging.read()
    return logging
  }

  get on(): boolean {
    return this.told && this.said
  }

  /** Reads it anew. What is not valid, or cannot be read now, changes nothing but that nothing is removed until it can. */
  async look(): Promise<void> {
    await this.read().catch(() => {
      this.retention = undefined
    })
  }

  private async read(): Promise<void> {
    const stand = await this.store.stand()
    if (stand.kind === 'valid') {
      const { document, version } = stand.value
      const { audit } = document
      this.said = audit?.log_all_passes !== false
      this.retention = (await this.isBehind(version)) ? undefined : { days: audit?.retention_days ?? RETENTION_DAYS, policy: version }
      return
    }
    // What was published is in force, though the bucket does not say it, or no longer: nothing is removed by a guess.
    this.retention = stand.kind === 'invalid' || (await this.isBehind(0)) ? undefined : { days: RETENTION_DAYS, policy: 0 }
  }
}

/** Who published a version may have died before it was put into force. 0: there is none, or what came last is none. */
async function newestPublished({ journal, subjects }: Bus): Promise<number> {
  const newest = await journal.newest(subjects.all('policy'))
  const decoded = newest && decode(newest.data, newest.headers.get(HEADER.contentType))
  const parsed = policyBody.safeParse(decoded?.ok ? decoded.value : undefined)
  return parsed.success ? parsed.data.version : 0
}
