import { FairSlots } from '@passover/core'
import { RoundRobin } from './round-robin.js'

/** An agent, and the other agent for which it sent a message, where its messages are shared by that too. */
export interface Sender {
  agent: string
  of?: string
}

/** Deliveries in hand for each place, unless said otherwise: enough for the places to be busy while what got no room comes again. */
const IN_HAND = 32

/** Places that agents take in turn. How many deliveries may wait or run at a time is bounded, and so is each agent's share of them. */
export class SharedSlots {
  /** Deliveries that may wait and run at a time. */
  readonly room: number
  readonly #rooms: FairSlots
  readonly #turns: RoundRobin

  constructor(places: number, inHand = IN_HAND) {
    this.room = places * inHand
    this.#rooms = new FairSlots(this.room)
    this.#turns = new RoundRobin(places)
  }

  /** Whether the agent has as much in hand as it may. */
  isFull(agent: string): boolean {
    return !this.#rooms.hasRoom(agent)
  }

  /** Does something in the agent's turn, and in its turn for another agent. Undefined: it has its share in hand, or the share is closed. */
  async run<T>({ agent, of }: Sender, doing: () => Promise<T>): Promise<T | undefined> {
    const leave = this.#rooms.take(agent, of)
    if (!leave) return undefined
    try {
      const free = await this.#turns.take(agent, of)
      return free && (await doing().finally(free))
    } finally {
      leave()
    }
  }

  /** Ends the waiting: `run` resolves to undefined. */
  close(): void {
    this.#turns.close()
  }
}
