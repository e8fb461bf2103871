import type { Table } from '@passover/bus'
import type { Clock } from '@passover/core'
import { isSamePass, type PassKey, type PassRecord, passKey } from '@passover/schemas'
import type { Logger } from 'pino'
import { z } from 'zod'
import { BTree, type Sorted } from '../runtime/sorted-map.js'
import { type Age, compareAge, entryKey, type InboxQueue, InboxQueues } from './inbox-queue.js'

/** KV bucket of the items that wait for a person, so that a restart finds them without reading every record. */
export const INBOX_BUCKET = 'inbox'

const ITEMS = ['dispatch', 'return', 'apply'] as const

const waitingEntry = z.object({
  v: z.literal(1),
  item: z.enum(ITEMS),
  key: passKey,
  root_originator: z.string(),
  since: z.number(),
  expires_at: z.number(),
})
export type WaitingEntry = z.infer<typeof waitingEntry>

/** Marks the bucket as complete: it holds everything that waited when it was built. */
const builtEntry = z.object({ v: z.literal(1), built: z.literal(true) })
const BUILT_KEY = 'built'

/** Marks that the inbox had no room for some items of this originator. `until` is the latest expiry among them. */
const leftOutEntry = z.object({
  v: z.literal(1),
  left_out: z.literal(true),
  originator: z.string(),
  root_originator: z.string(),
  until: z.number(),
})
export type LeftOut = Pick<z.infer<typeof leftOutEntry>, 'originator' | 'root_originator' | 'until'>

export const inboxEntry = z.union([waitingEntry, builtEntry, leftOutEntry])
export type InboxTable = Table<z.infer<typeof inboxEntry>>

export interface InboxFilter {
  root_originator?: string | undefined
  originator?: string | undefined
}

/** Fields of a record that the inbox needs. */
type InboxSource = Pick<PassRecord, 'key' | 'sequences'> & Partial<Pick<PassRecord, 'awaits' | 'root'>>

/**
 * Maximum number of entries for each kind of item. Above it, the originator with the most gets no more. A pass that is left out can still be decided
 * by its id.
 */
const MAX_ENTRIES = 50_000
/** Milliseconds by which the time of a mark must move before it is written again. */
const MARK_REFRESH_MS = 60_000
const MAX_CONCURRENT_WRITES = 256
const MAX_NAMED_ORIGINATORS = 5
const RETRY_DELAY_MS = 500

/**
 * List of passes that may wait for a person, built from their records. A query checks if a pass still waits. An entry is removed only when its item
 * can never be due again, so replicas and restarts that lag remove nothing that waits.
 */
export class Inbox {
  readonly #table: InboxTable
  readonly #clock: Clock
  readonly #log: Logger
  readonly #most: number
  /** Entries by pass id. Most passes have no entry, so a single lookup is enough for them. */
  readonly #waiting = new Map<string, WaitingEntry[]>()
  /** The same entries by originator: for each kind of item (`of`), in total (`all`) and for each root originator (`rooted`). */
  readonly #of = { dispatch: new InboxQueues(), return: new InboxQueues(), apply: new InboxQueues() }
  readonly #all = new InboxQueues()
  readonly #rooted = new Map<string, InboxQueues>()
  /** Outputs that await their release, by the expiry of their approval. */
  readonly #expiring: Sorted<Age, WaitingEntry> = new BTree<Age, WaitingEntry>(undefined, compareAge)
  /** Marks by their key. `written` is the value of `until` in the bucket. */
  readonly #marks = new Map<string, LeftOut & { written: number }>()
  /** Entries whose write is not acknowledged yet, with the first sequence of their pass. */
  readonly #writing = new Map<WaitingEntry, number>()
  #waiters: (() => void)[] = []
  #stopped = false

  constructor(table: InboxTable, clock: Clock, log: Logger, most = MAX_ENTRIES) {
    this.#table = table
    this.#clock = clock
    this.#log = log
    this.#most = most
  }

  /** Reads the bucket. Returns false if it was never completed. */
  async load(): Promise<boolean> {
    let built = false
    for await (const { value } of this.#table.entries()) {
      if ('built' in value) built = true
      else if ('left_out' in value) this.#marks.set(markKey(value), { ...value, written: value.until })
      else this.#keep(value)
    }
    return built
  }

  async markBuilt(): Promise<void> {
    await this.#table.put(BUILT_KEY, { v: 1, built: true })
  }

  /** Updates the entries of a pass from its record. `first` is the sequence from which the pass would have to be read again. */
  note(record: InboxSource, first: number): void {
    const { awaits, key } = record
    const known = this.#waiting.get(key.id)
    if (!awaits && !known) return
    for (const entry of known?.filter((one) => isSamePass(one.key, key)) ?? []) if (isOver(entry, record)) this.drop(entry)
    if (!awaits || this.#find(key, awaits.item)) return
    const entry: WaitingEntry = { v: 1, item: awaits.item, key, root_originator: (record.root ?? key).originator, ...timesOf(awaits) }
    if (this.#keep(entry)) void this.#write(entry, first)
  }

  /** Returns the entries that match, oldest first for each originator. */
  list(filter: InboxFilter): WaitingEntry[] {
    return Array.from(this.queues(filter).values(), (queue) => [...queue.after()]).flat()
  }

  /** Returns the queues that match, by originator. */
  queues({ root_originator, originator }: InboxFilter): Map<string, InboxQueue> {
    const queues = root_originator === undefined ? this.#all : this.#rooted.get(root_originator)
    const names = originator === undefined ? (queues?.names() ?? []) : [originator]
    return new Map(
      names.flatMap((name) => {
        const queue = queues?.get(name)
        return queue ? [[name, queue]] : []
      }),
    )
  }

  /** Returns the originators with items that the inbox does not list for lack of room. */
  leftOut(filter: InboxFilter = {}): LeftOut[] {
    const found: LeftOut[] = []
    for (const [name, { originator, root_originator, until }] of this.#marks) {
      const right = (filter.root_originator ?? root_originator) === root_originator && (filter.originator ?? originator) === originator
      if (until <= this.#clock.now()) this.#forget(name)
      else if (right) found.push({ originator, root_originator, until })
    }
    return found
  }

  /** Warning for people if the inbox is full, otherwise `undefined`. */
  get trouble(): string | undefined {
    const names = [...new Set(this.leftOut().map(({ originator }) => originator))].sort()
    if (names.length === 0) return undefined
    const some = names.slice(0, MAX_NAMED_ORIGINATORS).join(', ')
    return `the inbox is full and does not list all pending items of ${some}${names.length > MAX_NAMED_ORIGINATORS ? ` and ${names.length - MAX_NAMED_ORIGINATORS} more` : ''}; to see them: \`passover list --from ${names[0]} --status held\``
  }

  /**
   * Yields the returns whose approval expired by the given server time (ms), the earliest first. Must not be used any more after an entry was added
   * or removed.
   */
  *expired(by: number): Generator<WaitingEntry, undefined> {
    for (const [[at], entry] of this.#expiring.entries()) {
      if (at > by) return
      yield entry
    }
  }

  /** Removes an entry that no longer waits. */
  drop(entry: WaitingEntry): void {
    const known = this.#waiting.get(entry.key.id) ?? []
    const entries = known.filter((one) => one !== entry)
    if (entries.length === known.length) return
    if (entries.length > 0) this.#waiting.set(entry.key.id, entries)
    else this.#waiting.delete(entry.key.id)
    const { originator } = entry.key
    this.#of[entry.item].delete(originator, entry)
    this.#all.delete(originator, entry)
    const rooted = this.#rooted.get(entry.root_originator)
    rooted?.delete(originator, entry)
    if (rooted?.size === 0) this.#rooted.delete(entry.root_originator)
    if (entry.item === 'return') this.#expiring.delete([entry.expires_at, entryKey(entry)])
    // Erased, because a delete marker would keep the id of the pass for good. An entry that stays in the bucket is only checked once more.
    this.#erase(entryKey(entry))
  }

  #erase(key: string): void {
    const erased = this.#table.erase(key).catch(() => this.#table.delete(key))
    erased.catch((error: unknown) => this.#log.debug({ err: error }, 'inbox entry not deleted'))
  }

  get lowest(): number | undefined {
    let lowest: number | undefined
    for (const first of this.#writing.values()) lowest = Math.min(lowest ?? first, first)
    return lowest
  }

  backpressure(): Promise<void> | undefined {
    return this.#writing.size > MAX_CONCURRENT_WRITES ? new Promise((done) => this.#waiters.push(done)) : undefined
  }

  /** Stops retrying failed writes. */
  stop(): void {
    this.#stopped = true
  }

  #find(key: PassKey, item: WaitingEntry['item']): WaitingEntry | undefined {
    return this.#waiting.get(key.id)?.find((one) => isSamePass(one.key, key) && one.item === item)
  }

  #keep(entry: WaitingEntry): boolean {
    const { item, key } = entry
    if (this.#find(key, item) || !this.#hasRoom(entry)) return false
    this.#waiting.set(key.id, [...(this.#waiting.get(key.id) ?? []), entry])
    this.#of[item].add(key.originator, entry)
    this.#all.add(key.originator, entry)
    const rooted = this.#rooted.get(entry.root_originator) ?? new InboxQueues()
    this.#rooted.set(entry.root_originator, rooted)
    rooted.add(key.originator, entry)
    if (item === 'return') this.#expiring.set([entry.expires_at, entryKey(entry)], entry)
    return true
  }

  /** Makes room by leaving out the newest entry of the originator with the most. Returns false if the new entry itself is left out. */
  #hasRoom(entry: WaitingEntry): boolean {
    const of = this.#of[entry.item]
    if (of.size < this.#most) return true
    const longest = of.longest()
    if ((of.get(entry.key.originator)?.size ?? 0) >= (longest?.size ?? 0)) {
      this.#leave(entry)
      return false
    }
    const newest = longest?.newest
    if (!newest) return false
    this.#leave(newest)
    this.drop(newest)
    return true
  }

  /** Records in memory and in the bucket that an item was left out, because a restart does not find it again. */
  #leave({ key: { originator }, root_originator, expires_at }: WaitingEntry): void {
    const name = markKey({ originator, root_originator })
    const known = this.#marks.get(name)
    if (!known) this.#log.warn({ originator, root_originator, most: this.#most }, 'inbox is full; newest items of this originator omitted')
    const mark = known ?? { originator, root_originator, until: 0, written: Number.NEGATIVE_INFINITY }
    this.#marks.set(name, mark)
    mark.until = Math.max(mark.until, expires_at)
    if (mark.until - mark.written < MARK_REFRESH_MS) return
    // Set ahead of time, so that the mark covers all items left out until it is written again.
    mark.until += MARK_REFRESH_MS
    mark.written = mark.until
    this.#table.put(name, { v: 1, left_out: true, originator, root_originator, until: mark.until }).catch((error: unknown) => {
      mark.written = Number.NEGATIVE_INFINITY
      this.#log.warn({ originator, err: error }, 'list of omitted inbox items is full')
    })
  }

  #forget(name: string): void {
    this.#marks.delete(name)
    this.#erase(name)
  }

  async #write(entry: WaitingEntry, first: number): Promise<void> {
    this.#writing.set(entry, first)
    while (!this.#stopped && this.#find(entry.key, entry.item) === entry) {
      try {
        await this.#put(entry)
        break
      } catch (error) {
        this.#log.warn({ ...entry.key, err: error }, 'inbox entry not written')
        await new Promise<void>((done) => this.#clock.after(RETRY_DELAY_MS, done))
      }
    }
    if (this.#stopped) return
    this.#writing.delete(entry)
    for (const waiter of this.#waiters.splice(0)) waiter()
  }

  /** Writes an entry, unless a replica has written the same one: overwritten bytes would stay on disk until the server compacts. */
  async #put(entry: WaitingEntry): Promise<void> {
    const name = entryKey(entry)
    if ((await this.#table.create(name, entry)) !== undefined) return
    const there = (await this.#table.get(name))?.value
    const same = there !== undefined && 'item' in there && there.since === entry.since && there.expires_at === entry.expires_at
    if (!same) await this.#table.put(name, entry)
  }
}

function markKey({ originator, root_originator }: Pick<LeftOut, 'originator' | 'root_originator'>): string {
  return `left_out.${originator}.${root_originator}`
}

/** True if an item was due and can never be due again: a pass only moves forward, from its dispatch to its return and its application. */
function isOver({ item }: WaitingEntry, { awaits, sequences }: InboxSource): boolean {
  if (awaits) return ITEMS.indexOf(item) < ITEMS.indexOf(awaits.item)
  return sequences.return !== undefined || item === 'dispatch'
}

function timesOf({ since, expires_at }: NonNullable<PassRecord['awaits']>): Pick<WaitingEntry, 'since' | 'expires_at'> {
  return { since, expires_at }
}
