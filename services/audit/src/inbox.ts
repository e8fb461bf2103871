import type { Table } from '@passover/bus'
import type { Clock } from '@passover/core'
import { type PassKey, type PassRecord, passKey } from '@passover/schemas'
import type { Logger } from 'pino'
import { z } from 'zod'

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
export type Waiting = z.infer<typeof waitingEntry>

/** Everything that waited when it was made is in the bucket. */
const builtEntry = z.object({ v: z.literal(1), built: z.literal(true) })
const BUILT = 'built'
export const inboxEntry = z.union([waitingEntry, builtEntry])
export type InboxTable = Table<z.infer<typeof inboxEntry>>

/** What the inbox asks of a record. */
type Noted = Pick<PassRecord, 'key' | 'sequences'> & Partial<Pick<PassRecord, 'awaits' | 'root'>>

/** Of each item; who has more to decide is told of the older ones first. Whatever it is, its pass can be decided by id. */
const MOST = 50_000
const MOST_WRITES = 256
const RETRY_MS = 500

/**
 * Where something may wait for a person: a list of passes to look at, made of their records. Whether it still does is found out when
 * it is told. An entry is taken away only when its item can never be due again, so that replicas and restarts, however far behind,
 * take nothing away that waits.
 */
export class Inbox {
  /** By pass id: nearly all passes are in no inbox, and for them this is one look. */
  private readonly waiting = new Map<string, Waiting[]>()
  private readonly counts = { dispatch: 0, return: 0, apply: 0 }
  /** Entries whose write is not acknowledged yet, with the first sequence of their pass. */
  private readonly writing = new Map<Waiting, number>()
  private waiters: (() => void)[] = []
  private stopped = false

  constructor(
    private readonly table: InboxTable,
    private readonly clock: Clock,
    private readonly log: Logger,
  ) {}

  /** Reads the bucket; false when nobody finished making it. */
  async load(): Promise<boolean> {
    let built = false
    for await (const { value } of this.table.entries()) {
      if ('built' in value) built = true
      else this.keep(value)
    }
    return built
  }

  async markBuilt(): Promise<void> {
    await this.table.put(BUILT, { v: 1, built: true })
  }

  /** What a pass's record says; `first` is the sequence from which on it would have to be read again. */
  note(record: Noted, first: number): void {
    const { awaits, key } = record
    const known = this.waiting.get(key.id)
    if (!awaits && !known) return
    for (const entry of known?.filter((one) => isOf(one, key)) ?? []) if (isOver(entry, record)) this.drop(entry)
    if (!awaits || this.find(key, awaits.item)) return
    const entry: Waiting = { v: 1, item: awaits.item, key, root_originator: (record.root ?? key).originator, ...timesOf(awaits) }
    if (this.keep(entry)) void this.write(entry, first)
  }

  /** Oldest first. */
  list(filter: { root_originator?: string | undefined; originator?: string | undefined }): Waiting[] {
    const found: Waiting[] = []
    for (const entries of this.waiting.values()) {
      for (const entry of entries) {
        const right = (filter.root_originator ?? entry.root_originator) === entry.root_originator
        if (right && (filter.originator ?? entry.key.originator) === entry.key.originator) found.push(entry)
      }
    }
    return found.sort((a, b) => a.since - b.since || (cursorOf(a) < cursorOf(b) ? -1 : 1))
  }

  /** Of one item, those whose time was over by then (server ms). */
  over(item: Waiting['item'], by: number): Waiting[] {
    const found: Waiting[] = []
    if (this.counts[item] === 0) return found
    for (const entries of this.waiting.values())
      for (const entry of entries) if (entry.item === item && entry.expires_at <= by) found.push(entry)
    return found
  }

  /** It was looked at, and waits no longer. */
  drop(entry: Waiting): void {
    const known = this.waiting.get(entry.key.id) ?? []
    const entries = known.filter((one) => one !== entry)
    if (entries.length === known.length) return
    if (entries.length > 0) this.waiting.set(entry.key.id, entries)
    else this.waiting.delete(entry.key.id)
    this.counts[entry.item]--
    // A mark that it was deleted would keep its pass's id for good. One that stays in the bucket is only looked at once more.
    const key = tableKey(entry)
    const erased = this.table.erase(key).catch(() => this.table.delete(key))
    erased.catch((error: unknown) => this.log.debug({ err: error }, 'inbox entry not deleted'))
  }

  get lowest(): number | undefined {
    let lowest: number | undefined
    for (const first of this.writing.values()) lowest = Math.min(lowest ?? first, first)
    return lowest
  }

  busy(): Promise<void> | undefined {
    return this.writing.size > MOST_WRITES ? new Promise((done) => this.waiters.push(done)) : undefined
  }

  /** Gives up what is only being retried. */
  stop(): void {
    this.stopped = true
  }

  private find(key: PassKey, item: Waiting['item']): Waiting | undefined {
    return this.waiting.get(key.id)?.find((one) => isOf(one, key) && one.item === item)
  }

  private keep(entry: Waiting): boolean {
    if (this.find(entry.key, entry.item) || this.counts[entry.item] >= MOST) return false
    this.counts[entry.item]++
    this.waiting.set(entry.key.id, [...(this.waiting.get(entry.key.id) ?? []), entry])
    return true
  }

  private async write(entry: Waiting, first: number): Promise<void> {
    this.writing.set(entry, first)
    while (!this.stopped && this.find(entry.key, entry.item) === entry) {
      try {
        await this.put(entry)
        break
      } catch (error) {
        this.log.warn({ ...entry.key, err: error }, 'inbox entry not written')
        await new Promise<void>((done) => this.clock.after(RETRY_MS, done))
      }
    }
    if (this.stopped) return
    this.writing.delete(entry)
    for (const waiter of this.waiters.splice(0)) waiter()
  }

  /** The same that a replica has written is not written over: its bytes would lie on disk until the server compacts. */
  private async put(entry: Waiting): Promise<void> {
    const name = tableKey(entry)
    if ((await this.table.create(name, entry)) !== undefined) return
    const there = (await this.table.get(name))?.value
    const same = there !== undefined && 'item' in there && there.since === entry.since && there.expires_at === entry.expires_at
    if (!same) await this.table.put(name, entry)
  }
}

/** Where it stands in the order: what `next` of an answer says. */
export function cursorOf({ item, key, since }: Waiting): string {
  return `${String(since).padStart(15, '0')}.${item}.${key.originator}.${key.subagent}.${key.id}`
}

function tableKey({ item, key }: Waiting): string {
  return `${item}.${key.originator}.${key.subagent}.${key.id}`
}

function isOf(entry: Waiting, key: PassKey): boolean {
  return entry.key.originator === key.originator && entry.key.subagent === key.subagent && entry.key.id === key.id
}

/** An item that has been due and is not: a pass only goes on, from its dispatch to its return and to its application. */
function isOver({ item }: Waiting, { awaits, sequences }: Noted): boolean {
  if (awaits) return ITEMS.indexOf(item) < ITEMS.indexOf(awaits.item)
  return sequences.return !== undefined || item === 'dispatch'
}

function timesOf({ since, expires_at }: NonNullable<PassRecord['awaits']>): Pick<Waiting, 'since' | 'expires_at'> {
  return { since, expires_at }
}
