import type { Table } from '@passover/bus'
import type { Clock } from '@passover/core'
import { isSamePass, type PassKey, type PassRecord, passKey } from '@passover/schemas'
import type { Logger } from 'pino'
import { z } from 'zod'
import { BTree, type Sorted } from '../runtime/sorted-map.js'
import { type Age, compareAge, entryKey, type InboxQueue, InboxQueues } from './inbox-queue.js'

/** KV bucket of what waits for a person: found again after a restart without reading every record. */
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

/** Everything that waited when it was made is in the bucket. */
const builtEntry = z.object({ v: z.literal(1), built: z.literal(true) })
const BUILT_KEY = 'built'

/** The inbox had no room for some items of this originator; `until`: the last of them expires then. */
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

/** What the inbox asks of a record. */
type InboxSource = Pick<PassRecord, 'key' | 'sequences'> & Partial<Pick<PassRecord, 'awaits' | 'root'>>

/** Entries of each item. Beyond that the originator that has most of them gets no more. A pass that is left out can still be decided by its id. */
const MAX_ENTRIES = 50_000
/** A mark of what was left out is written again when its time has moved on by that much. */
const MARK_REFRESH_MS = 60_000
const MAX_CONCURRENT_WRITES = 256
const MAX_NAMED_ORIGINATORS = 5
const RETRY_DELAY_MS = 500

/**
 * Where something may wait for a person: a list of passes to look at, made of their records. Whether it still does is found out when
 * it is told. An entry is taken away only when its item can never be due again, so that replicas and restarts, however far behind,
 * take nothing away that waits.
 */
export class Inbox {
  /** By pass id: nearly all passes are in no inbox, and for them this is one look. */
  private readonly waiting = new Map<string, WaitingEntry[]>()
  /** The same by originator: of each item, of all, and of those of each root originator. */
  private readonly of = { dispatch: new InboxQueues(), return: new InboxQueues(), apply: new InboxQueues() }
  private readonly all = new InboxQueues()
  private readonly rooted = new Map<string, InboxQueues>()
  /** Returns to be released, by when their approval expires. */
  private readonly expiring: Sorted<Age, WaitingEntry> = new BTree<Age, WaitingEntry>(undefined, compareAge)
  /** By the keys of their marks; `written`: what the bucket says of `until`. */
  private readonly marks = new Map<string, LeftOut & { written: number }>()
  /** Entries whose write is not acknowledged yet, with the first sequence of their pass. */
  private readonly writing = new Map<WaitingEntry, number>()
  private waiters: (() => void)[] = []
  private stopped = false

  constructor(
    private readonly table: InboxTable,
    private readonly clock: Clock,
    private readonly log: Logger,
    private readonly most = MAX_ENTRIES,
  ) {}

  /** Reads the bucket; false when nobody finished making it. */
  async load(): Promise<boolean> {
    let built = false
    for await (const { value } of this.table.entries()) {
      if ('built' in value) built = true
      else if ('left_out' in value) this.marks.set(markKey(value), { ...value, written: value.until })
      else this.keep(value)
    }
    return built
  }

  async markBuilt(): Promise<void> {
    await this.table.put(BUILT_KEY, { v: 1, built: true })
  }

  /** What a pass's record says; `first` is the sequence from which on it would have to be read again. */
  note(record: InboxSource, first: number): void {
    const { awaits, key } = record
    const known = this.waiting.get(key.id)
    if (!awaits && !known) return
    for (const entry of known?.filter((one) => isSamePass(one.key, key)) ?? []) if (isOver(entry, record)) this.drop(entry)
    if (!awaits || this.find(key, awaits.item)) return
    const entry: WaitingEntry = { v: 1, item: awaits.item, key, root_originator: (record.root ?? key).originator, ...timesOf(awaits) }
    if (this.keep(entry)) void this.write(entry, first)
  }

  /** Oldest first of each originator. */
  list(filter: InboxFilter): WaitingEntry[] {
    return Array.from(this.queues(filter).values(), (queue) => [...queue.after()]).flat()
  }

  /** What waits, a queue for each originator. */
  queues({ root_originator, originator }: InboxFilter): Map<string, InboxQueue> {
    const queues = root_originator === undefined ? this.all : this.rooted.get(root_originator)
    const names = originator === undefined ? (queues?.names() ?? []) : [originator]
    return new Map(
      names.flatMap((name) => {
        const queue = queues?.get(name)
        return queue ? [[name, queue]] : []
      }),
    )
  }

  /** Whose items may wait although the inbox does not list them. */
  leftOut(filter: InboxFilter = {}): LeftOut[] {
    const found: LeftOut[] = []
    for (const [name, { originator, root_originator, until }] of this.marks) {
      const right = (filter.root_originator ?? root_originator) === root_originator && (filter.originator ?? originator) === originator
      if (until <= this.clock.now()) this.forget(name)
      else if (right) found.push({ originator, root_originator, until })
    }
    return found
  }

  /** What people must know of an inbox that is full; undefined: it is not. */
  get trouble(): string | undefined {
    const names = [...new Set(this.leftOut().map(({ originator }) => originator))].sort()
    if (names.length === 0) return undefined
    const some = names.slice(0, MAX_NAMED_ORIGINATORS).join(', ')
    return `the inbox is full: it does not list all that waits of ${some}${names.length > MAX_NAMED_ORIGINATORS ? ` and ${names.length - MAX_NAMED_ORIGINATORS} more` : ''}; see \`passover list --from ${names[0]} --status held\``
  }

  /** Returns to be released of which the time was over by then (server ms), the longest over first. Not to be used any more once an entry came or went. */
  *expired(by: number): Generator<WaitingEntry, undefined> {
    for (const [[at], entry] of this.expiring.entries()) {
      if (at > by) return
      yield entry
    }
  }

  /** It was looked at, and waits no longer. */
  drop(entry: WaitingEntry): void {
    const known = this.waiting.get(entry.key.id) ?? []
    const entries = known.filter((one) => one !== entry)
    if (entries.length === known.length) return
    if (entries.length > 0) this.waiting.set(entry.key.id, entries)
    else this.waiting.delete(entry.key.id)
    const { originator } = entry.key
    this.of[entry.item].delete(originator, entry)
    this.all.delete(originator, entry)
    const rooted = this.rooted.get(entry.root_originator)
    rooted?.delete(originator, entry)
    if (rooted?.size === 0) this.rooted.delete(entry.root_originator)
    if (entry.item === 'return') this.expiring.delete([entry.expires_at, entryKey(entry)])
    // A mark that it was deleted would keep its pass's id for good. One that stays in the bucket is only looked at once more.
    this.erase(entryKey(entry))
  }

  private erase(key: string): void {
    const erased = this.table.erase(key).catch(() => this.table.delete(key))
    erased.catch((error: unknown) => this.log.debug({ err: error }, 'inbox entry not deleted'))
  }

  get lowest(): number | undefined {
    let lowest: number | undefined
    for (const first of this.writing.values()) lowest = Math.min(lowest ?? first, first)
    return lowest
  }

  backpressure(): Promise<void> | undefined {
    return this.writing.size > MAX_CONCURRENT_WRITES ? new Promise((done) => this.waiters.push(done)) : undefined
  }

  /** Gives up what is only being retried. */
  stop(): void {
    this.stopped = true
  }

  private find(key: PassKey, item: WaitingEntry['item']): WaitingEntry | undefined {
    return this.waiting.get(key.id)?.find((one) => isSamePass(one.key, key) && one.item === item)
  }

  private keep(entry: WaitingEntry): boolean {
    const { item, key } = entry
    if (this.find(key, item) || !this.hasRoom(entry)) return false
    this.waiting.set(key.id, [...(this.waiting.get(key.id) ?? []), entry])
    this.of[item].add(key.originator, entry)
    this.all.add(key.originator, entry)
    const rooted = this.rooted.get(entry.root_originator) ?? new InboxQueues()
    this.rooted.set(entry.root_originator, rooted)
    rooted.add(key.originator, entry)
    if (item === 'return') this.expiring.set([entry.expires_at, entryKey(entry)], entry)
    return true
  }

  /** Of too many, the newest of the originator that has most of them is left out. */
  private hasRoom(entry: WaitingEntry): boolean {
    const of = this.of[entry.item]
    if (of.size < this.most) return true
    const longest = of.longest()
    if ((of.get(entry.key.originator)?.size ?? 0) >= (longest?.size ?? 0)) {
      this.leave(entry)
      return false
    }
    const newest = longest?.newest
    if (!newest) return false
    this.leave(newest)
    this.drop(newest)
    return true
  }

  /** Remembers, in the bucket too, that an item was left out: a restart does not find it again. */
  private leave({ key: { originator }, root_originator, expires_at }: WaitingEntry): void {
    const name = markKey({ originator, root_originator })
    const known = this.marks.get(name)
    if (!known) this.log.warn({ originator, root_originator, most: this.most }, 'inbox is full; newest items of this originator left out')
    const mark = known ?? { originator, root_originator, until: 0, written: Number.NEGATIVE_INFINITY }
    this.marks.set(name, mark)
    mark.until = Math.max(mark.until, expires_at)
    if (mark.until - mark.written < MARK_REFRESH_MS) return
    // Ahead, so that it holds for all that are left out until it is written again.
    mark.until += MARK_REFRESH_MS
    mark.written = mark.until
    this.table.put(name, { v: 1, left_out: true, originator, root_originator, until: mark.until }).catch((error: unknown) => {
      mark.written = Number.NEGATIVE_INFINITY
      this.log.warn({ originator, err: error }, 'inbox does not remember what it left out')
    })
  }

  private forget(name: string): void {
    this.marks.delete(name)
    this.erase(name)
  }

  private async write(entry: WaitingEntry, first: number): Promise<void> {
    this.writing.set(entry, first)
    while (!this.stopped && this.find(entry.key, entry.item) === entry) {
      try {
        await this.put(entry)
        break
      } catch (error) {
        this.log.warn({ ...entry.key, err: error }, 'inbox entry not written')
        await new Promise<void>((done) => this.clock.after(RETRY_DELAY_MS, done))
      }
    }
    if (this.stopped) return
    this.writing.delete(entry)
    for (const waiter of this.waiters.splice(0)) waiter()
  }

  /** The same that a replica has written is not written over: its bytes would lie on disk until the server compacts. */
  private async put(entry: WaitingEntry): Promise<void> {
    const name = entryKey(entry)
    if ((await this.table.create(name, entry)) !== undefined) return
    const there = (await this.table.get(name))?.value
    const same = there !== undefined && 'item' in there && there.since === entry.since && there.expires_at === entry.expires_at
    if (!same) await this.table.put(name, entry)
  }
}

function markKey({ originator, root_originator }: Pick<LeftOut, 'originator' | 'root_originator'>): string {
  return `left_out.${originator}.${root_originator}`
}

/** An item that has been due and is not: a pass only goes on, from its dispatch to its return and to its application. */
function isOver({ item }: WaitingEntry, { awaits, sequences }: InboxSource): boolean {
  if (awaits) return ITEMS.indexOf(item) < ITEMS.indexOf(awaits.item)
  return sequences.return !== undefined || item === 'dispatch'
}

function timesOf({ since, expires_at }: NonNullable<PassRecord['awaits']>): Pick<WaitingEntry, 'since' | 'expires_at'> {
  return { since, expires_at }
}
