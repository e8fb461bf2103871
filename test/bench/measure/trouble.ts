import type { Bus } from '@passover/bus'
import { byHand } from '../../support/attacks/broken-topology.js'

/** How many requests of a second were to a subagent, by whomever, and how many of those that were to it were answered. */
export async function troubleOf({ bus, servers }: { bus: Bus; servers: string[] }, subagent: string): Promise<() => Promise<string>> {
  const since = performance.now()
  const before = await counted()
  return async () => {
    const now = await counted()
    const seconds = (performance.now() - since) / 1_000
    const asked = now.asked - before.asked
    const answered = asked - (now.waiting - before.waiting)
    return `${Math.round(asked / seconds)} asked and ${Math.round(answered / seconds)} answered a second`
  }

  async function counted() {
    const subjects_filter = bus.subjects.pattern('request', subagent, '*')
    const info = await byHand(servers, (manager) => manager.streams.info(bus.subjects.stream, { subjects_filter }))
    const asked = Object.values(info.state.subjects ?? {}).reduce((sum, count) => sum + count, 0)
    const loads = await bus.workload(subagent)
    return { asked, waiting: loads.reduce((sum, { queued, running }) => sum + queued + running, 0) }
  }
}
