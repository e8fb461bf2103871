import { FairSlots } from '@passover/core'
import { RoundRobin } from './round-robin.js'

/** The agent that caused a message, and the other agent it acts for, if turns are also shared by that. */
export interface Sender {
  agent: string
  of?: string
}

/** Default number of waiting or running deliveries for each place: keeps the places busy while deliveries that found no room are delivered again. */
const IN_HAND = 32

/** Places that agents take in turn. Limits the total number of waiting and running deliveries, and each agent's share of them. */
export class SharedSlots {
  /** Maximum number of deliveries that wait or run at a time. */
  readonly room: number
  readonly #rooms: FairSlots
  readonly #turns: RoundRobin

  constructor(places: number, inHand = IN_HAND) {
    this.room = places * inHand
    this.#rooms = new FairSlots(this.room)
    this.#turns = new RoundRobin(places)
  }

  /** True if the agent already has its full share of deliveries waiting or running. */
  isFull(agent: string): boolean {
    return !this.#rooms.hasRoom(agent)
  }

  /** Runs `doing` in the agent's turn. Resolves to `undefined` if the agent already has its full share, or if `close` was called. */
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

  /** Ends all waiting: `run` resolves to `undefined`. */
  close(): void {
    this.#turns.close()
  }
}
