import { headers as natsHeaders } from '@nats-io/transport-node'
import { type Bus, decode, type StoredMessage } from '@passover/bus'
import { HEADER, violationBody } from '@passover/schemas'
import { expect } from 'vitest'
import { until } from '../processes/until.js'
import type { Probe } from '../servers/permitted.js'

export const MSGPACK = { [HEADER.contentType]: 'application/msgpack' }

let stored = 0

/** A fresh subject in the parts bucket of an agent, which the agent may write. */
export function ownPlace(agent: string): string {
  return `$O.parts.${agent}.C.x${stored++}.0`
}

/** Has the server store bytes and headers of an agent under a subject that the agent may not publish to. */
export type Bounce = (to: string, data: Uint8Array, headers?: Record<string, string>) => Promise<void>

export function bounceBy(agent: string, probe: Probe): Bounce {
  return async (to, data, head = MSGPACK) => {
    expect(await probe.publish(to)).toBe('refused')
    const place = ownPlace(agent)
    const headers = natsHeaders()
    for (const [name, value] of Object.entries(head)) headers.append(name, value)
    await probe.nc.request(place, data, { headers, timeout: 10_000 })
    probe.nc.publish(`$JS.API.DIRECT.GET.OBJ_parts_${agent}.${place}`, '', { reply: to })
    await probe.nc.flush()
  }
}

/** Waits until a message after `after` is stored under a subject. */
export function newestOf(bus: Bus, subject: string, after = 0): Promise<StoredMessage> {
  const found = async () => {
    const message = await bus.journal.newest(subject)
    return message && message.sequence > after ? message : undefined
  }
  return until(found, { what: `${subject} is stored`, deadline_ms: 20_000 })
}

/** Waits for the violation that the audit records about a message; returns what it says. */
export function violationOf({ subjects, journal }: Bus, sequence: number): Promise<string> {
  return until(
    async () => {
      for (let from = sequence + 1; ; ) {
        const event = await journal.first(subjects.allEvents('violation'), from)
        if (!event) return undefined
        const body = decode(event.data)
        const violation = violationBody.parse(body.ok ? body.value : undefined)
        if (violation.sequence === sequence) return violation.what
        from = event.sequence + 1
      }
    },
    { what: `the violation of ${sequence} is recorded`, deadline_ms: 20_000 },
  )
}
