import type { StoredMessage } from '@passover/bus'
import { foldJournal, type JournalRules } from '@passover/core'
import type { Fact, Step } from '@passover/schemas'

interface Message {
  stored: StoredMessage
  fact: Fact
}

/**
 * Maximum bytes of bodies kept per pass and kind of message: `EVENTS_BYTES` for each kind of event, `STEPS_BYTES` for each other kind. Honest passes
 * stay far below, and the large body of a `late` output is not needed here.
 */
const STEPS_BYTES = 8 * 1024 * 1024
const EVENTS_BYTES = 768 * 1024
const EMPTY = new Uint8Array(0)

/**
 * Bounds the memory for the bodies of a pass. Its parties can store any number of messages of up to 1 MiB about it, and each query about the pass
 * reads all of them. Beyond a limit for each kind of message, only subject and headers are kept.
 */
export class BoundedBodies {
  readonly #spent = new Map<string, number>()
  readonly #left = new Set<number>()

  /** Returns the message, without its body if the limit of its kind is reached. */
  bounded(message: Message): Message {
    const { stored, fact } = message
    if (this.#left.has(stored.sequence)) return message
    const kind = fact.type === 'event' ? fact.kind : fact.type
    const bytes = (this.#spent.get(kind) ?? 0) + stored.data.length
    if (bytes > (fact.type === 'event' ? EVENTS_BYTES : STEPS_BYTES)) return { stored: this.unread({ ...stored, data: EMPTY }), fact }
    this.#spent.set(kind, bytes)
    return message
  }

  /** Marks a message as read without its body. */
  unread(stored: StoredMessage): StoredMessage {
    this.#left.add(stored.sequence)
    return stored
  }

  isLeft(sequence: number): boolean {
    return this.#left.has(sequence)
  }
}

/** Reads the omitted bodies of the steps that count in the journal (held, work and return), because they describe the pass and its result. */
export async function withCounting<One extends Message>(
  messages: One[],
  { bodies, rules, read }: { bodies: BoundedBodies; rules: JournalRules; read: (sequence: number) => Promise<StoredMessage | undefined> },
): Promise<One[]> {
  if (!messages.some(({ stored }) => bodies.isLeft(stored.sequence))) return messages
  const steps = messages.flatMap(({ fact }) => (fact.type === 'step' ? [fact] : []))
  const counting = countingSteps(steps, rules)
  return Promise.all(
    messages.map(async (message) => {
      const { sequence } = message.stored
      if (!counting.has(sequence) || !bodies.isLeft(sequence)) return message
      return { ...message, stored: (await read(sequence)) ?? message.stored }
    }),
  )
}

function countingSteps(steps: readonly Step[], rules: JournalRules): ReadonlySet<number> {
  const { journal } = foldJournal([...steps], rules)
  const found = [
    'held' in journal ? journal.held : undefined,
    'work' in journal ? journal.work : undefined,
    'return' in journal ? journal.return : undefined,
  ]
  return new Set(found.flatMap((step) => (step ? [step.sequence] : [])))
}
