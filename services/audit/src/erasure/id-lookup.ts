import type { Bus, StoredMessage } from '@passover/bus'
import { requestNamed } from '@passover/core'
import { type Fact, isSamePass, type PassKey, SYSTEM } from '@passover/schemas'
import { type LoadDeps, loadPass, requestIn } from '../pass/load-pass.js'
import { mapInBatches } from '../runtime/concurrency.js'
import { buildIdHistory, type IdUse, type Message } from './id-history.js'

export interface IdLookupDeps extends LoadDeps {
  /** Returns the sequences of a pass that are not in a sealed segment yet, as an index would list them. */
  unsealedOf: (key: PassKey) => number[]
}

/** Maximum number of messages read from the stream at a time. */
const READ_CONCURRENCY = 16

/** Returns the passes that used an id, oldest first, each with all its messages in stream and archive. */
export async function findIdUses(deps: IdLookupDeps, key: PassKey): Promise<IdUse[]> {
  const messages = await messagesOfId(deps, key)
  return buildIdHistory({ key, messages, waiting: await unansweredRequests(deps.bus, key, messages) }, deps.rules)
}

/** Returns everything stored under an id, in order, for all uses of the id. */
async function messagesOfId(deps: IdLookupDeps, key: PassKey): Promise<Message[]> {
  const { bus, archive } = deps
  const loaded = await loadPass(deps, key, { up_to: Number.MAX_SAFE_INTEGER })
  const all = new Map<number, StoredMessage>(loaded.messages.map(({ stored }) => [stored.sequence, stored]))
  // Adds requests that no step names, and progress: the loaded pass does not contain all of these.
  for (const stored of await archive.messages(await archive.sequencesOf(key))) all.set(stored.sequence, stored)
  const named = [...all.values()].flatMap((stored) => requestIn(bus, stored) ?? [])
  // Reads the bodies that were omitted above a limit. Without its body, a message would have another digest.
  const bare = [...all.values()].flatMap(({ sequence, data }) => (data.length === 0 ? [sequence] : []))
  for (const sequence of new Set([...bare, ...named, ...deps.unsealedOf(key)])) {
    if (all.get(sequence)?.data.length) continue
    const stored = (await bus.journal.message(sequence)) ?? (await archive.messages([sequence]))[0]
    if (stored && isAbout(bus.subjects.toFact(stored), key)) all.set(sequence, stored)
  }
  return [...all.values()].sort((a, b) => a.sequence - b.sequence).map((stored) => ({ stored, fact: bus.subjects.toFact(stored) }))
}

function isAbout(fact: Fact, key: PassKey): boolean {
  if (fact.type === 'request') return fact.originator === key.originator && fact.subagent === key.subagent
  return 'key' in fact && isSamePass(fact.key, key)
}

/**
 * Returns the requests that wait for their first step. While a journal of the id is in the stream, a request only repeats it and is deleted together
 * with it (rule 4). A request that is still there afterwards asks for a new pass.
 */
async function unansweredRequests({ journal, subjects }: Bus, key: PassKey, messages: readonly Message[]): Promise<Set<number>> {
  const named = new Set(messages.map(({ fact }) => (fact.type === 'step' ? requestNamed(fact)?.sequence : undefined)))
  const requests = messages.filter(({ fact }) => fact.type === 'request' && !named.has(fact.sequence))
  const waiting = new Set<number>()
  if (requests.length === 0 || (await journal.newest(subjects.journal(key)))) return waiting
  for (const { stored } of requests) {
    // The request may have been refused as malformed, or because its id was taken.
    const answer = await journal.newest(subjects.return({ ...key, id: subjects.badId(stored.sequence) }, SYSTEM))
    if (!answer && (await journal.message(stored.sequence))) waiting.add(stored.sequence)
  }
  return waiting
}

/** Returns messages by sequence. It looks first where they most likely are: in the archive if they are `sealed`, otherwise in the stream. */
export async function messagesAt(
  { bus, archive }: Pick<IdLookupDeps, 'bus' | 'archive'>,
  sequences: ReadonlySet<number>,
  sealed: boolean,
): Promise<Map<number, StoredMessage>> {
  const found = new Map<number, StoredMessage>()
  const left = () => [...sequences].filter((sequence) => !found.has(sequence))
  const ofArchive = async () => {
    for (const stored of await archive.messages(left())) found.set(stored.sequence, stored)
  }
  if (sealed) await ofArchive()
  for (const stored of await mapInBatches(left(), (sequence) => bus.journal.message(sequence), READ_CONCURRENCY)) {
    if (stored) found.set(stored.sequence, stored)
  }
  if (!sealed) await ofArchive()
  return found
}
