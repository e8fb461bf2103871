import { type Bus, type PolicyStand, PolicyStore } from '@passover/bus'

/** Spec 0 §5.1. */
const RETENTION_DAYS = 30

/** Whether passes get records: as this process was told, and as the policy in force says (`audit.log_all_passes`, DESIGN §6). */
export class Logging {
  private said = true
  /** How long the archive keeps, days; undefined: a policy is in force that cannot be read. */
  retention_days: number | undefined

  /** `told` false: whatever the policy says. */
  constructor(
    private readonly store: { stand(): Promise<PolicyStand> },
    private readonly told: boolean,
  ) {}

  /** Throws where the policy cannot be read: nothing is recorded before it is known. */
  static async open(bus: Bus, told: boolean): Promise<Logging> {
    const logging = new Logging(await PolicyStore.open(bus), told)
    await logging.read()
    return logging
  }

  get on(): boolean {
    return this.told && this.said
  }

  /** Reads it anew. What is not valid, or cannot be read now, changes nothing. */
  async look(): Promise<void> {
    await this.read().catch(() => undefined)
  }

  private async read(): Promise<void> {
    const stand = await this.store.stand()
    if (stand.kind === 'invalid') return
    const audit = stand.kind === 'valid' ? stand.value.document.audit : undefined
    if (stand.kind === 'valid') this.said = audit?.log_all_passes !== false
    this.retention_days = audit?.retention_days ?? RETENTION_DAYS
  }
}
