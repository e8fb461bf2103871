/**
 * Named points between two steps of the dispatcher at which a test can kill or stall it.
 * In production no faults are passed in, and nothing is awaited at these points.
 */
export const FAULT_POINTS = [
  'admission:after-charge',
  'admission:before-publish',
  'admission:after-publish',
  'admission:before-ack',
  'admission:before-dead-letter',
  'admission:before-bad-return',
  'decision:before-publish',
  'decision:after-publish',
  'decision:before-ack',
  'ending:before-publish',
  'ending:after-publish',
  'look:before-publish',
  'advisory:before-publish',
  'advisory:before-dead-letter',
  'register:before-event',
  'register:before-record',
  'register:before-consumers',
  'snapshot:before-put',
  'snapshot:after-put',
] as const
export type FaultPoint = (typeof FAULT_POINTS)[number]

export interface Faults {
  at(point: FaultPoint): Promise<void>
}
