import { encode, encodeHeaders } from '@passover/bus'
import { HELD_UP_MS } from '../server/network-line.js'
import type { Simulation } from '../simulation.js'
import type { FaultPlan } from './plan.js'

/** Lets the planned faults happen. */
export function beginFaults(simulation: Simulation): void {
  for (const fault of simulation.plan.faults) simulation.world.after(fault.at, () => happen(simulation, fault))
}

function happen(simulation: Simulation, fault: FaultPlan): void {
  const { world, server, weather, lines, processes } = simulation
  simulation.count(fault.kind)
  switch (fault.kind) {
    case 'die': {
      const process = processes.get(fault.who)
      if (!process || process.dead) return
      if (fault.n === 0) process.die()
      else process.dies_in = fault.n
      return
    }
    case 'scratch': {
      // A timekeeper that finds no snapshot reads the stream from its start.
      server.bucket(server.subjects.bucket('snapshots')).clear()
      processes.get(fault.who)?.die()
      return
    }
    case 'stop': {
      const process = processes.get(fault.who)
      // What waits to happen in it since an earlier stop stands behind that one.
      if (process) process.stopped_until = Math.max(process.stopped_until, world.time + fault.ms)
      simulation.troubleOf(fault.who, fault.ms)
      return
    }
    case 'cut': {
      const line = lines.get(fault.who)
      line?.cut()
      simulation.troubleOf(fault.who, fault.ms)
      world.after(fault.ms, () => server.up && line?.join())
      return
    }
    case 'storm': {
      const before = { loss: 0, late: 0, late_ms: 0 }
      simulation.trouble(fault.ms + Math.max(fault.late_ms, HELD_UP_MS))
      Object.assign(weather, { loss: weather.clustered ? fault.loss : 0, late: fault.late, late_ms: fault.late_ms })
      world.after(fault.ms, () => Object.assign(weather, before))
      return
    }
    case 'slow':
      weather.store_ms = fault.store_ms
      simulation.trouble(fault.ms)
      world.after(fault.ms, () => {
        weather.store_ms = 0
      })
      return
    case 'restart': {
      if (!server.up) return
      server.up = false
      simulation.trouble(fault.down_ms + 400)
      server.restart(fault.forget_ms)
      world.after(fault.down_ms, () => {
        server.up = true
        for (const line of lines.values()) world.after(world.dice.between(1, 400), () => server.up && line.join())
      })
      return
    }
    case 'bounce':
      bounce(simulation, fault)
      return
    case 'mute':
      server.consumers.get(fault.consumer)?.mute(fault.ms)
      return
    case 'remove':
      if (fault.consumer.startsWith('dispatcher')) simulation.trouble(0)
      server.removeConsumer(fault.consumer)
  }
}

const ACKNOWLEDGMENT = new TextEncoder().encode('{"stream":"PASSOVER","seq":4}')

/** Stores what would count if a client had published it: the headers that the server adds, or their absence, show that none did. */
function bounce(simulation: Simulation, { under, bare }: Extract<FaultPlan, { kind: 'bounce' }>): void {
  const { world, server, checks } = simulation
  // It hides steps from exact gets, so passes may end late.
  simulation.trouble(0)
  const begun = [...checks.books.values()].filter(({ state }) => state !== 'none')
  if (begun.length === 0) return
  const book = world.dice.pick(begun)
  const { subjects } = server
  const digest = book.digest ?? ''
  const subject = {
    held: () => subjects.held(book),
    work: () => subjects.work(book, 'medium'),
    fence: () => subjects.step('fence', book, book.subagent),
    return: () => subjects.step('return', book, book.subagent),
    system_return: () => subjects.step('return', book, 'passover'),
    decision: () => subjects.decision(book, 'dispatch', 'pat'),
  }[under]()
  const claims = {
    'Passover-Attempt': String(book.attempt + (under === 'fence' ? 1 : 0)),
    'Passover-Nonce': 'bounced',
    'Passover-Status': 'completed',
    'Passover-Verdict': 'approve',
    'Passover-Digest': digest,
    'Nats-Stream': 'OBJ_parts_evil',
    'Nats-Sequence': '1',
  }
  const data = bare ? ACKNOWLEDGMENT : encode({ v: 1, verdict: 'approve', digest, output: { status: 'completed' } }, 'msgpack')
  server.publish({ subject, block: encodeHeaders(bare ? {} : claims), data, guard: undefined }, 'bounce')
}
