import { type Bus, openBus, Subjects } from '@passover/bus'
import { SimBus } from '../simulation/server/bus.js'
import { Line } from '../simulation/server/network-line.js'
import { SimServer } from '../simulation/server/server.js'
import { Process, World } from '../simulation/world.js'
import { natsFixture } from '../support/servers/nats.js'

/** A server to which connections are made. */
export interface BusHome extends AsyncDisposable {
  open(identity: string): Promise<Bus>
}

/** What promises to behave as a bus does: each is put to the same suite. */
export const BUS_MAKERS: Record<string, () => Promise<BusHome>> = { 'a real server': realHome, 'the simulated server': simulatedHome }

async function realHome(): Promise<BusHome> {
  const nats = await natsFixture()
  const opened: Bus[] = []
  return {
    async open(identity) {
      const bus = await openBus({ servers: nats.servers, identity, onError: () => undefined })
      opened.push(bus)
      return bus
    },
    async [Symbol.asyncDispose]() {
      for (const bus of opened) await bus[Symbol.asyncDispose]()
      await nats[Symbol.asyncDispose]()
    },
  }
}

const STEP_MS = 2

/** Virtual time runs on while the test waits for something. */
async function simulatedHome(): Promise<BusHome> {
  const world = new World(1)
  const server = new SimServer(world, new Subjects())
  const weather = { clustered: false, slowest_ms: 1, loss: 0, late: 0, late_ms: 0, lag: 0 }
  const opened: Bus[] = []
  let stopped = false
  const running = (async () => {
    while (!stopped) {
      await world.run(world.time + STEP_MS)
      // The test waits by real timers: they come only when the event loop turns.
      await new Promise((turn) => setImmediate(turn))
    }
  })()
  return {
    async open(identity) {
      const process = new Process(world, `${identity}-${opened.length}`)
      const bus = await SimBus.open(server, new Line(process, { weather, tally: () => undefined }), identity)
      opened.push(bus)
      return bus
    },
    async [Symbol.asyncDispose]() {
      for (const bus of opened) await bus[Symbol.asyncDispose]()
      stopped = true
      await running
    },
  }
}
