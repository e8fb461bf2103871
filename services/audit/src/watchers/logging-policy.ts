import { type Bus, type CurrentPolicy, decode, PolicyStore } from '@passover/bus'
import { HEADER, policyBody } from '@passover/schemas'

/** Number of days that the archive keeps segments if the policy does not say. */
const RETENTION_DAYS = 30

export interface RetentionLimits {
  days: number
  /** Version of the policy that sets the limit; 0 if the default applies. */
  policy: number
}

/** Decides whether passes get records, by the options of this process and `audit.log_all_passes` of the policy in force. */
export class LoggingPolicy {
  readonly #store: { stand(): Promise<CurrentPolicy> }
  readonly #told: boolean
  /** True if a policy version newer than the given one was published; with 0, if any version was published. */
  readonly #isBehind: (version: number) => Promise<boolean>
  #said = true
  /** Retention of the archive and the policy version that sets it; `undefined` if the policy could not be read the last time. */
  retention: RetentionLimits | undefined

  /** If `told` is false, passes get no records, whatever the policy says. */
  constructor(
    store: { stand(): Promise<CurrentPolicy> },
    told: boolean,
    isBehind: (version: number) => Promise<boolean> = async () => false,
  ) {
    this.#store = store
    this.#told = told
    this.#isBehind = isBehind
  }

  /** Throws if the policy cannot be read: nothing may be recorded before it is known. */
  static async open(bus: Bus, told: boolean): Promise<LoggingPolicy> {
    const isBehind = async (version: number) => (await newestPublished(bus)) > version
    const logging = new LoggingPolicy(await PolicyStore.open(bus), told, isBehind)
    await logging.#read()
    return logging
  }

  get on(): boolean {
    return this.#told && this.#said
  }

  /** Reads the policy again. If it is invalid or cannot be read, logging stays as it was, and nothing is removed until it can be read. */
  async look(): Promise<void> {
    await this.#read().catch(() => {
      this.retention = undefined
    })
  }

  async #read(): Promise<void> {
    const stand = await this.#store.stand()
    if (stand.kind === 'valid') {
      const { document, version } = stand.value
      const { audit } = document
      this.#said = audit?.log_all_passes !== false
      this.retention = (await this.#isBehind(version)) ? undefined : { days: audit?.retention_days ?? RETENTION_DAYS, policy: version }
      return
    }
    // A published version is in force even if the bucket does not contain it (any more). Nothing is removed on a guess.
    this.retention = stand.kind === 'invalid' || (await this.#isBehind(0)) ? undefined : { days: RETENTION_DAYS, policy: 0 }
  }
}

/**
 * Returns the newest published policy version, or 0 if there is none or the last message is not a valid policy. The bucket may lack it if its
 * publisher died before writing it there.
 */
async function newestPublished({ journal, subjects }: Bus): Promise<number> {
  const newest = await journal.newest(subjects.all('policy'))
  const decoded = newest && decode(newest.data, newest.headers.get(HEADER.contentType))
  const parsed = policyBody.safeParse(decoded?.ok ? decoded.value : undefined)
  return parsed.success ? parsed.data.version : 0
}
