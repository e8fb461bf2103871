import type { Bus } from '@passover/bus'

export interface Load {
  /** The most places of one priority: a worker's place polls all three. */
  idle: number
  queued: number
  running: number
}

/**
 * How many open passes wait in a subagent's queue. The queue also has work of passes that ended while they waited, until a worker comes and
 * puts it aside.
 *
 * @param open - passes that the audit knows as admitted and not ended
 */
export function openQueued({ queued, running }: Pick<Load, 'queued' | 'running'>, open: number): number {
  return Math.min(queued, Math.max(0, open - running))
}

/** What waits for a subagent's workers, over its three priorities. */
export async function totalLoad(bus: Bus, subagent: string): Promise<Load> {
  const slots = await bus.workload(subagent)
  return {
    idle: Math.max(0, ...slots.map(({ idle }) => idle)),
    queued: slots.reduce((sum, { queued }) => sum + queued, 0),
    running: slots.reduce((sum, { running }) => sum + running, 0),
  }
}
