import type { Bus } from '@passover/bus'
import type { PassKey } from '@passover/schemas'

/** A pass of the quiet pair: when it was asked for (ms, this machine's clock, which is the server's too) and how long it took. */
export interface Timed {
  id: string
  begun: number
  ms: number
}

/** What a pass waits for, one after the other: the request is stored, its work step, its return, and that is heard. */
const STAGES = ['asked', 'admitted', 'worked', 'heard'] as const

/** Where those that took longest spent their time: the mean of each stage, as the times of what was stored tell. */
export async function whereSlow(bus: Bus, pair: Omit<PassKey, 'id'>, passes: readonly Timed[]): Promise<string> {
  const sums = STAGES.map(() => 0)
  for (const { id, begun, ms } of passes) {
    const history = await bus.journal.history({ ...pair, id })
    const timeOf = (kind: string) => history.find(({ subject }) => kindOf(bus, subject) === kind)?.time ?? Number.NaN
    const at = [begun, timeOf('request'), timeOf('work'), timeOf('return'), begun + ms]
    for (const stage of STAGES.keys()) sums[stage] = (sums[stage] ?? 0) + (at[stage + 1] ?? Number.NaN) - (at[stage] ?? Number.NaN)
  }
  return STAGES.map((stage, n) => `${stage} ${((sums[n] ?? 0) / passes.length).toFixed(1)}`).join(', ')
}

function kindOf(bus: Bus, subject: string): string {
  const parsed = bus.subjects.parse(subject)
  return parsed.kind === 'step' ? parsed.step : parsed.kind
}
