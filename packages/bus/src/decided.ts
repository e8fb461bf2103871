import type { Link } from './link.js'
import { NOTHING } from './replies.js'

/** Tells who waits for a decision that it is worth asking now. A core message: nobody may depend on it. */
export function hintDecided(link: Link, subject: string): void {
  link.send(subject, NOTHING)
}

export function hearDecided(link: Link, subject: string, listener: () => void): AsyncDisposable {
  const subscription = link.subscribe(subject, listener)
  return {
    async [Symbol.asyncDispose]() {
      if (!subscription.isClosed()) subscription.unsubscribe()
    },
  }
}
