import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Bus, encode, splitContext } from '@passover/bus'
import { type CustodyErasure, custodyAnswer, inboxAnswer, listAnswer, type Part, queryAnswer, statsAnswer } from '@passover/schemas'
import type { AuditFixture } from './auditing.js'
import { byHand } from './breaking.js'
import { context, minimalOutput } from './examples.js'
import { rawMessages } from './raw-archive.js'
import { Story, type StoryOptions } from './story.js'
import { until } from './until.js'

/** What must not be found after an erasure. */
export const MARKER = 'ZEBRA-7f3a-do-not-keep'
const SECRET = {
  summary: { ...minimalOutput.summary, decision: 'approved' as const, decision_reason: MARKER, generated_summary: `says ${MARKER}` },
}

/** What an erasure writes: each step lies between two edges. */
export const ERASE_STEPS = ['tombstone', 'object', 'entry', 'former', 'message', 'record', 'part', 'done'] as const
export type EraseStep = (typeof ERASE_STEPS)[number]

/** It ends itself, as kill -9 does, before (or after the server did) the n-th write of a kind. */
export interface EraseEdge {
  step: EraseStep
  side: 'before' | 'after'
  n: number
}

/** Passes that are to go, and what people say about them. */
export class Erasable {
  /** Large parts that nothing else refers to. */
  readonly alone: Part[] = []
  private named = 0

  constructor(private readonly bus: Bus) {}

  story(session_id: string, options: StoryOptions = {}): Story {
    return new Story(this.bus, `erasable-${String(this.named++).padStart(4, '0')}`, { session_id, ...options })
  }

  secret(session: string): Promise<Story> {
    return this.story(session, { reason: MARKER }).whole(SECRET)
  }

  /** Large enough to lie apart. */
  large(text: string, objective = MARKER): Promise<Part[]> {
    const files = [
      { path: 'big.txt', content: `${text} ${'x'.repeat(300_000)}`, metadata: { size_bytes: 1, last_modified: 1, is_binary: false } },
    ]
    return this.bus.parts.stow('alice', splitContext({ ...context, objective, files }).parts)
  }

  /** Three passes, nine messages, two large parts: whole, refused, and one that told of its progress. */
  async fill(session: string): Promise<Story[]> {
    const alone = await this.large(`${MARKER} alone ${session}`)
    this.alone.push(...alone.filter(({ owner }) => owner !== undefined))
    const shared = await this.large(`${MARKER} shared`)
    const whole = await this.story(session, { parts: alone, reason: MARKER }).whole(SECRET)
    const refused = this.story(session, { parts: shared, reason: MARKER })
    await refused.request()
    await refused.ends({ code: 'E004', message: `not ${MARKER}` })
    const told = this.story(session, { reason: MARKER })
    await told.request()
    await told.work()
    await told.event('progress', 'audit', { message: MARKER })
    await told.returns(SECRET)
    return [whole, refused, told]
  }

  /** Says something about custody; gives its sequence. */
  async says(body: Record<string, unknown>, by = 'maria'): Promise<number> {
    const outcome = await this.bus.publish({ subject: this.bus.subjects.custody(by), data: encode({ v: 1, ...body }) })
    if (outcome.kind !== 'stored') throw new Error(`not stored: ${outcome.kind}`)
    return outcome.sequence
  }

  async custody(session?: string, originator?: string) {
    const about = { ...(session ? { session } : {}), ...(originator ? { originator } : {}) }
    const answer = custodyAnswer.parse(await this.bus.ask({ op: 'custody', ...about }, { timeout_ms: 10_000 }))
    if (!answer.ok) throw new Error(answer.error.message)
    return answer
  }

  /** What became of an erasure. */
  async ended(erase: number): Promise<CustodyErasure> {
    let found: CustodyErasure | undefined
    const look = async () => {
      found = (await this.custody()).erasures.find((one) => one.erase === erase)
      return found !== undefined && found.state !== 'pending'
    }
    await until(look, { what: 'the erasure has ended', deadline_ms: 60_000 })
    return found as CustodyErasure
  }
}

/** What the audit tells of a session, or of a text, to whoever searches, lists, counts or looks into the inbox. */
export async function told(bus: Bus, { session_id, text }: { session_id: string; text: string }): Promise<unknown[]> {
  const query = async (filter: object) => queryAnswer.parse(await bus.ask({ op: 'query', ...filter }))
  const found: unknown[] = []
  for (const answer of [await query({ session_id }), await query({ text })]) if (answer.ok) found.push(...answer.entries)
  const listed = listAnswer.parse(await bus.ask({ op: 'list', session_id }))
  if (listed.ok) found.push(...listed.passes)
  const counted = statsAnswer.parse(await bus.ask({ op: 'stats', session_id }))
  if (counted.ok && counted.passes > 0) found.push(counted)
  const inbox = inboxAnswer.parse(await bus.ask({ op: 'inbox' }))
  if (JSON.stringify(inbox).includes(text)) found.push(inbox)
  return found
}

/** Where a text stands on a server: messages of any of its streams, and files of its store, as they lie there. */
export async function storedAnywhere({ nats }: AuditFixture, ...texts: string[]): Promise<string[]> {
  const found: string[] = []
  const names = await byHand(nats.servers, async ({ streams }) => {
    const all: string[] = []
    for await (const { config } of streams.list()) all.push(config.name)
    return all
  })
  for (const name of names) {
    for (const { data, subject, sequence } of await rawMessages(nats.url, name)) {
      if (texts.some((text) => Buffer.from(data).includes(text) || subject.includes(text))) found.push(`${name} ${subject} ${sequence}`)
    }
  }
  return [...found, ...(await storedFiles(await storeOf(nats), ...texts))]
}

/** Where the server's files lie. */
export async function storeOf(nats: AuditFixture['nats']): Promise<string> {
  const answer = (await (await fetch(new URL('/jsz', nats.node.monitor))).json()) as { config: { store_dir: string } }
  return answer.config.store_dir
}

/** Files that hold one of these texts. */
export async function storedFiles(folder: string, ...texts: string[]): Promise<string[]> {
  const found: string[] = []
  for (const name of await readdir(folder, { recursive: true })) {
    const bytes = await readFile(join(folder, name)).catch(() => undefined)
    if (texts.some((text) => bytes?.includes(text))) found.push(name)
  }
  return found
}
