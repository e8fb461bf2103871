import { EARLY_MESSAGE_MS, type ManifestEntry, SEGMENT_SIZE } from '@passover/archive'
import { readHeaders, type StoredMessage, Subjects } from '@passover/bus'
import type { CustodyLog } from '@passover/core'
import type { Fact, PassKey } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { KEY, requestOf, returnOf, T0, workOf } from '../../testing/samples.js'
import { sealed } from '../../testing/sealed.js'
import { isHeld } from '../erasure/legal-hold.js'
import { type DeletionDeps, SegmentDeleter } from './segment-deleter.js'

function message(sequence: number, time: number, subject = 'acknowledged.alice', said = ''): StoredMessage {
  const headers = readHeaders(`NATS/1.0\r\n${said}\r\n`)
  return { sequence, time, subject, headers, data: new Uint8Array() }
}

const clock = { monotonic: () => 0 }

interface Given {
  /** Server ms. */
  now?: number
  /** Later messages of the pass, as the indexes name them. */
  younger?: number[]
  /** What is in the archive besides the segment. */
  older?: StoredMessage[]
  /** Whether people hold the pass. */
  held?: boolean
  /** Told of each read of a whole pass. */
  onRead?: () => void
}

/** Goes through a segment of which the stream has what it has; gives what was deleted, in that order. */
async function deletedFrom(
  entry: Partial<ManifestEntry>,
  archived: StoredMessage[],
  stored: StoredMessage[],
  given: Given = {},
): Promise<number[]> {
  const { now = 1_000_000, younger = [], older = [], held = false, onRead } = given
  const deleted: number[] = []
  const journal = {
    message: async (sequence: number) => stored.find((one) => one.sequence === sequence),
    // A replica that lags.
    last: async () => undefined,
    history: async () => {
      onRead?.()
      return stored
    },
    newest: async (subject: string) => stored.findLast((one) => matches(one.subject, subject)),
    deleteMessage: async (sequence: number) => void deleted.push(sequence),
  }
  const subjects = new Subjects()
  const follow = async ({ filters, from }: { filters: string[]; from: number }, on: (one: StoredMessage, fact: Fact) => void) => {
    for (const one of stored)
      if (one.sequence >= from && filters.some((filter) => matches(one.subject, filter))) on(one, subjects.toFact(one))
    return { caughtUp: Promise.resolve(), closed: new Promise(() => undefined), [Symbol.asyncDispose]: async () => undefined }
  }
  const bus = { subjects, journal, follow, now: () => now }
  const [agents, isHeld] = [new Map(), async () => held]
  const all = [...older, ...archived]
  const archive = {
    sequencesOf: async () => all.map(({ sequence }) => sequence),
    sequencesAfter: async () => younger,
    mayBegin: async () => older.some(({ subject }) => subject.endsWith('.passover')),
    messages: async (sequences: number[]) => older.filter(({ sequence }) => sequences.includes(sequence)),
  }
  const mine = { unsealedOf: () => [], isGhost: () => false, rules: { id_window_ms: 1_000 } }
  const deps = { bus, clock, agents, isHeld, archive, ...mine } as unknown as DeletionDeps
  await new SegmentDeleter(deps).run(
    { entry: entry as ManifestEntry, messages: archived },
    { isYounger: () => younger.length > 0, isDeferred: () => false },
  )
  return deleted
}

function matches(subject: string, filter: string): boolean {
  const pattern = filter.replaceAll('.', '\\.').replaceAll('*', '[^.]+').replace(/>$/, '.+')
  return new RegExp(`^${pattern}$`).test(subject)
}

async function gone(archived: StoredMessage[], stored: StoredMessage[]): Promise<number[]> {
  return (await deletedFrom({ k: 0 }, archived, stored)).sort((a, b) => a - b)
}

const archived = [1, 2, 3].map((sequence) => message(sequence, 100 + sequence))

it('deletes archived messages, and accepts that some are already deleted', async () => {
  expect(await gone(archived, archived)).toEqual([1, 2, 3])
  expect(await gone(archived, archived.slice(1, 2))).toEqual([1, 2, 3])
})

// A server that lost its newest messages gives their sequences to others.
it('deletes nothing if the stream has different messages at those sequences', async () => {
  const others = [...archived.slice(0, 2), message(3, 999)]
  await expect(gone(archived, others)).rejects.toThrow('sequence 3 of the stream differs from the archive')
})

// Found by the simulation (seed 2729): where its answer stands in a later segment, it went with the other pass, two windows too early.
it('leaves a request that was refused under a name of its own to its answer', async () => {
  const id = 'Passover-Id: given-id-1\r\n'
  const [first, second] = [message(1, 100, 'request.audit.alice', id), message(2, 200, 'request.audit.alice', id)]
  const guard = 'Nats-Expected-Last-Subject-Sequence: 0\r\nNats-Expected-Last-Subject-Sequence-Subject: *.alice.audit.given-id-1.*\r\n'
  const ended = message(3, 300, 'return.alice.audit.given-id-1.passover', `${guard}Passover-Request: 1\r\nPassover-Code: E003\r\n`)
  const pass = [first, second, ended]
  expect(await gone(pass, pass)).toEqual([1, 2, 3])
  const refusal = message(5_000, 400, 'return.alice.audit.bad-000000002.passover', 'Passover-Request: 2\r\n')
  expect(await gone(pass, [...pass, refusal])).toEqual([1, 3])
})

// Found by an hour of chaos: a cancel stood in the segment before, where an audit had read it that was killed.
it('takes along what is older than the request, of a segment that it did not read', async () => {
  const key = 'alice.audit.given-id-1'
  const cancel = message(1, 100, `event.${key}.cancel.alice`)
  const asked = message(5, 500, 'request.audit.alice', 'Passover-Id: given-id-1\r\n')
  const guard = (last: number) =>
    `Nats-Expected-Last-Subject-Sequence: ${last}\r\nNats-Expected-Last-Subject-Sequence-Subject: *.${key}.*\r\n`
  const ended = message(6, 600, `return.${key}.passover`, `${guard(0)}Passover-Request: 5\r\nPassover-Code: E003\r\n`)
  expect(await deletedFrom({ k: 3, first_time: 400 }, [asked, ended], [cancel, asked, ended])).toEqual([5, 1, 6])
  // What was asked for so much later can have nothing older.
  expect(await deletedFrom({ k: 3, first_time: 400 - EARLY_MESSAGE_MS }, [asked, ended], [cancel, asked, ended])).toEqual([5, 6])
})

describe('a message of a pass after its end', () => {
  const key = 'alice.audit.given-id-1'
  const guard = `Nats-Expected-Last-Subject-Sequence: 0\r\nNats-Expected-Last-Subject-Sequence-Subject: *.${key}.*\r\n`
  const asked = message(1, 100, 'request.audit.alice', 'Passover-Id: given-id-1\r\n')
  const ended = message(2, 200, `return.${key}.passover`, `${guard}Passover-Request: 1\r\nPassover-Code: E003\r\n`)
  const pass = [asked, ended]
  const told = message(5_000, 300, `event.${key}.progress.audit`)

  it('does not keep it where it is an event of an agent, which stays until it is archived', async () => {
    expect(await deletedFrom({ k: 0 }, pass, [...pass, told], { younger: [5_000] })).toEqual([1, 2])
  })

  it('leaves with its own segment, whether the pass is gone or was never there', async () => {
    // Nobody can tell whether a request is gone without asking for it.
    expect(await deletedFrom({ k: 1 }, [told], [told], { younger: [9_000], older: pass })).toEqual([1, 5_000])
    const more = message(9_000, 400, `event.${key}.progress.audit`)
    expect(await deletedFrom({ k: 1 }, [told], [told, more], { younger: [9_000] })).toEqual([5_000])
  })

  it('keeps it where it is a request, which could begin it anew, for eight windows', async () => {
    const again = message(5_000, 300, 'request.audit.alice', 'Passover-Id: given-id-1\r\n')
    const at = (now: number) => deletedFrom({ k: 0 }, pass, [...pass, again], { younger: [5_000], now })
    expect(await at(8_200)).toEqual([])
    expect(await at(8_201)).toEqual([1, 2])
  })

  it('keeps it where it is a step of the dispatcher, which could begin a pass once the journal is gone; not where it is an agent’s', async () => {
    const younger = (subject: string) => deletedFrom({ k: 0 }, pass, [...pass, message(5_000, 300, subject)], { younger: [5_000] })
    expect(await younger(`work.${key}.medium`)).toEqual([])
    expect(await younger(`fence.${key}.audit`)).toEqual([1, 2])
    expect(await younger(`return.${key}.audit`)).toEqual([1, 2])
  })

  it('keeps passes that may continue in a later segment', async () => {
    expect(await deletedFrom({ k: 0 }, [asked], [...pass, told], { younger: [2] })).toEqual([])
  })
})

describe('messages of agents under an id without a pass', () => {
  const key = 'alice.audit.given-id-1'
  const stored = [1, 2, 3].map((sequence) => message(sequence, 100 + sequence, `event.${key}.cancel.alice`))
  const later = message(5_000, 300, `event.${key}.cancel.alice`)
  const read: number[] = []
  const deleted = (more: StoredMessage[], given: Given = {}) => {
    read.length = 0
    return deletedFrom({ k: 0 }, stored, [...stored, ...more], { ...given, onRead: () => read.push(1) })
  }

  // Fails where its history is read: with many messages to each of thousands of ids that took 40 ms for each of them, in each segment.
  it('goes with its segment, and is not read whole, also where more of it is stored later', async () => {
    expect([await deleted([]), read]).toEqual([[1, 2, 3], []])
    expect([await deleted([later], { younger: [5_000] }), read]).toEqual([[1, 2, 3], []])
  })

  it('is kept under a legal hold', async () => {
    expect([await deleted([], { held: true }), read]).toEqual([[], []])
  })

  it('is read whole where the dispatcher has begun a pass of that id since', async () => {
    const begun = message(5_000, 300, `work.${key}.medium`)
    expect([await deleted([begun], { younger: [5_000] }), read]).toEqual([[], [1]])
  })
})

// Fails where reads are as many as deletions: those may be some thousand, and the server works off one after the other.
it('reads sixteen passes at once, however many deletions may be under way', async () => {
  const returns = Array.from({ length: 100 }, (_, n) => message(n + 1, 100, `return.alice.audit.given-id-${n}00000.passover`))
  let running = 0
  let most = 0
  const history = async () => {
    most = Math.max(most, ++running)
    await new Promise((later) => setImmediate(later))
    running--
    throw new Error('nobody answers')
  }
  const bus = { subjects: new Subjects(), journal: { history, message: async () => undefined } }
  const deleter = new SegmentDeleter({ bus, clock, rules: { id_window_ms: 1_000 } } as unknown as DeletionDeps)
  deleter.pace.recordLatency(10_000)
  const run = deleter.run({ entry: { k: 0 } as ManifestEntry, messages: returns }, { isYounger: () => false, isDeferred: () => false })
  await expect(run).rejects.toThrow('nobody answers')
  expect(most).toBe(16)
})

// The session of a pass is in its first step, which may be in an old segment of the archive only.
it('deletes nothing of a pass whose session is held, also if the indexes of the archive are not read yet', async () => {
  const back = returnOf(2 * SEGMENT_SIZE + 1)
  const archive = sealed(2, [requestOf(1), workOf(2), back])
  const deleted: number[] = []
  const journal = {
    history: async () => [back.stored],
    message: async (sequence: number) => (sequence === back.stored.sequence ? back.stored : undefined),
    newest: async () => undefined,
    deleteMessage: async (sequence: number) => void deleted.push(sequence),
  }
  const follow = async (_: unknown, on: (one: StoredMessage, fact: Fact) => void) => {
    on(back.stored, back.fact)
    return { caughtUp: Promise.resolve(), [Symbol.asyncDispose]: async () => undefined }
  }
  const bus = { subjects: new Subjects(), journal, follow, now: () => T0 + 1_000_000 }
  const rules = { id_window_ms: 1_000 }
  const custody = { needsSessions: true, stays: (_: PassKey, session?: string) => session === 'session-1' } as unknown as CustodyLog
  const mine = { unsealedOf: () => [], isGhost: () => false, agents: new Map(), rules }
  const deps = {
    bus,
    clock,
    archive,
    ...mine,
    isHeld: (pass: Parameters<typeof isHeld>[2]) => isHeld(custody, { ...deps, unsealedOf: () => [] }, pass),
  } as never as DeletionDeps
  const segment = { entry: { k: 2, first_time: T0 } as ManifestEntry, messages: [back.stored] }
  const run = () => new SegmentDeleter(deps).run(segment, { isYounger: () => false, isDeferred: () => false })
  await expect(run()).rejects.toThrow('the indexes of 0 of 3 segments are read')
  await archive.finder.prepare()
  expect((await run()).left.passes).toMatchObject([{ key: KEY, why: 'hold' }])
  expect(deleted).toEqual([])
})
