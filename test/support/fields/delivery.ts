import { durable, shownPass } from '../fixtures/delivery.js'
import { until } from '../processes/until.js'
import type { Bench, Row } from './row.js'

/** Fields that decide how long a return waits for its originator. */

const DEADLINE_MS = 1_000
/** Seen by then, or not at all. */
const SEEN_MS = 8_000

/** What is said of a return whose originator asks for delivery and stays away. */
async function leftAlone(bench: Bench): Promise<string> {
  const { all } = bench
  const process = await durable(all, 'zoe')
  const pass = process.agent.passOver({ subagent: bench.to, reason: 'row', work_context: { objective: 'o' } })
  await pass.stored
  await process.die()
  await using _worker = await bench.works(() => 'done')
  const { step } = await all.world.end(bench.key(pass.id, 'zoe'), 30_000)
  const said = async () => {
    const row = (await shownPass(all, pass.id))?.row
    const told = `${row?.status} ${row?.code ?? 'in time'}`
    return row?.code || all.world.bus.now() > step.time + SEEN_MS ? told : undefined
  }
  return until(said, { what: 'it is late, or will not be', deadline_ms: 60_000, every_ms: 100 })
}

export const DELIVERY: Row[] = [
  {
    field: 'return_deadline_ms',
    what: 'a return that an originator who asks for delivery has not acknowledged by then is E022',
    set: { defaults: { return_deadline_ms: DEADLINE_MS } },
    run: leftAlone,
    standard: 'returned in time',
    changed: 'returned E022',
  },
]
