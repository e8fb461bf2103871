import type { StoredMessage } from '@passover/bus'
import { foldJournal, type JournalRules } from '@passover/core'
import type { Fact, Step } from '@passover/schemas'

interface Message {
  stored: StoredMessage
  fact: Fact
}

/** Bytes of bodies kept of one pass, for each kind of message. Honest passes stay far below; nothing reads the body of a `late` output here. */
const STEPS_BYTES = 8 * 1024 * 1024
const EVENTS_BYTES = 768 * 1024
const EMPTY = new Uint8Array(0)

/**
 * Bounds the bodies that reading a pass keeps in memory. Its parties can store messages of up to 1 MiB about it without end, and each question
 * about the pass reads all of them: beyond a bound for each kind, only subject and headers are kept.
 */
export class BoundedBodies {
  private readonly spent = new Map<string, number>()
  private readonly left = new Set<number>()

  /** The message, without its body where the bound of its kind is reached. */
  bounded(message: Message): Message {
    const { stored, fact } = message
    if (this.left.has(stored.sequence)) return message
    const kind = fact.type === 'event' ? fact.kind : fact.type
    const bytes = (this.spent.get(kind) ?? 0) + stored.data.length
    if (bytes > (fact.type === 'event' ? EVENTS_BYTES : STEPS_BYTES)) return { stored: this.unread({ ...stored, data: EMPTY }), fact }
    this.spent.set(kind, bytes)
    return message
  }

  /** Notes that a message was read without its body. */
  unread(stored: StoredMessage): StoredMessage {
    this.left.add(stored.sequence)
    return stored
  }

  isLeft(sequence: number): boolean {
    return this.left.has(sequence)
  }
}

/** Reads the bodies of the steps that count in the journal, which say what the pass was and what it returned, where they were left out. */
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
