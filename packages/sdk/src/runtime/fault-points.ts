import type { PassKey } from '@passover/schemas'

/**
 * Points between two steps of the SDK at which a test can kill or stall the process. In production no faults are passed in and nothing is awaited.
 */
export const FAULT_POINTS = [
  'pass-over:before-publish',
  'pass-over:after-publish',
  'worker:before-read',
  'worker:before-fence',
  'worker:after-fence',
  'worker:before-run',
  'worker:after-run',
  'worker:before-return',
  'worker:after-return',
  'worker:before-ack',
  'worker:after-ack',
  'apply:after-decision',
  'apply:before-intent',
  'apply:after-intent',
  'apply:before-file',
  'apply:after-files',
  'apply:before-event',
  'apply:after-event',
] as const
export type FaultPoint = (typeof FAULT_POINTS)[number]

export interface Faults {
  at(point: FaultPoint, key: PassKey): Promise<void>
}
