import { nodeRandom, openBus, serverClock } from '@passover/bus'
import { startDispatcher } from '@passover/dispatcher'
import { SILENT } from '../dispatcher/dispatcher.js'
import { optionsOf, pause, say } from './load/load-role.js'

/** A dispatcher that only keeps time. It says how long after its process began it knew as many open passes as it was told of. */
const { servers, open } = optionsOf<{ servers: string[]; open: number }>()
const bus = await openBus({ servers, identity: 'passover' })
const running = await startDispatcher(
  { bus, clock: serverClock(bus), random: nodeRandom, log: SILENT },
  { admission: false, snapshot_ms: 1_000 },
)
while (running.stats().open < open) await pause(2)
const { user, system } = process.cpuUsage()
say('knows', { ms: performance.now(), cpu_ms: (user + system) / 1_000 })
