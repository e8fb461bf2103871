import type { PlannedFault } from './schedule.js'

/** A fault as it was, ms of this machine. */
export interface DoneFault extends PlannedFault {
  began: number
  /** When the trouble itself was over. */
  mended: number
  /** When all was as before: servers settled, or the process ready. */
  recovered: number
  what: string
  skipped?: true
}
