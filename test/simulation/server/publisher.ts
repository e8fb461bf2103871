import { encodeHeaders, type PublishMessage, type PublishResult } from '@passover/bus'
import { type Spoilt, spoil } from '../plans/spoil.js'
import { type Answer, type Line, TIMEOUT_MS } from './network-line.js'
import type { SimServer } from './server.js'

/** Publishes over a simulated line. */
export class SimPublisher {
  readonly #server: SimServer
  readonly #line: Line
  readonly #identity: string

  constructor(server: SimServer, line: Line, identity: string) {
    this.#server = server
    this.#line = line
    this.#identity = identity
  }

  publish(message: PublishMessage): Promise<PublishResult> {
    return new Promise((resolve) => this.send(message, resolve))
  }

  send(message: PublishMessage, settle: (outcome: PublishResult) => void): void {
    const spoilt = this.#spoilt(message)
    const { subject, headers, data = new Uint8Array(0), guard } = spoilt === undefined ? message : spoil(message, spoilt)
    const expected = guard ? guardLines(subject, guard) : ''
    const sent = { subject, block: encodeHeaders(headers, expected), data, guard, sent_at: this.#server.world.now, spoilt }
    const ask = (): PublishResult | undefined => this.#server.publish(sent, this.#identity)
    const { process, weather } = this.#line
    const send = () => this.#line.requestThen(ask, TIMEOUT_MS, (answer) => settle(outcomeOf(answer, weather.clustered)))
    const { store_ms = 0 } = weather
    if (store_ms > 0) process.after(process.dice.between(0, store_ms), send)
    else send()
  }

  /** A request tells in its context which planned pass it asks for. */
  #spoilt({ subject, data = new Uint8Array(0) }: PublishMessage): Spoilt | undefined {
    if (this.#server.spoilt.size === 0 || !subject.startsWith('request.')) return undefined
    const text = Buffer.from(data).toString('latin1')
    for (const [name, how] of this.#server.spoilt) if (text.includes(`"objective":"${name}"`)) return how
    return undefined
  }
}

function guardLines(subject: string, guard: { subject: string; sequence: number }): string {
  const expected = `Nats-Expected-Last-Subject-Sequence: ${guard.sequence}\r\n`
  return guard.subject === subject ? expected : `${expected}Nats-Expected-Last-Subject-Sequence-Subject: ${guard.subject}\r\n`
}

/** In a cluster a refusal does not name what was stored instead. */
function outcomeOf(answer: Answer<PublishResult>, clustered: boolean): PublishResult {
  if ('none' in answer) return { kind: 'unknown', description: answer.none }
  return clustered && answer.value.kind === 'lost' ? { kind: 'lost' } : answer.value
}
