import { describe, expect, it } from 'vitest'
import { type Pace, Playback, type PlaybackEntry, playbackEntries, playbackLine } from './playback.js'

const entry = (sequence: number, time: number, more: Partial<PlaybackEntry> = {}): PlaybackEntry => ({
  sequence,
  time,
  kind: 'request',
  by: 'alice',
  pass: 'pass-000000001',
  originator: 'alice',
  subagent: 'audit',
  ...more,
})
const ENTRIES = [entry(1, 1_000), entry(2, 1_400), entry(3, 901_400), entry(4, 901_300)]

/** What is told, and for how long was waited between. */
function told(pace: Omit<Pace, 'wait'>): { teller: Playback; happened: (number | string)[] } {
  const happened: (number | string)[] = []
  const wait = async (ms: number) => void happened.push(`${ms} ms`)
  return { teller: new Playback({ ...pace, wait }, ({ sequence }) => happened.push(sequence)), happened }
}

describe('a replay', () => {
  it('tells all at once, or at the speed that was asked for: what lay far apart waits five seconds, what came at once not at all', async () => {
    const atOnce = told({})
    expect(await atOnce.teller.tell(ENTRIES)).toBe(true)
    expect(atOnce.happened).toEqual([1, 2, 3, 4])
    const slow = told({ speed: 0.5 })
    expect(await slow.teller.tell(ENTRIES)).toBe(true)
    expect(slow.happened).toEqual([1, '800 ms', 2, '5000 ms', 3, '0 ms', 4])
    const fast = told({ speed: 300 })
    // Segment by segment, as an archive is read: the gap between two of them counts too.
    await fast.teller.tell(ENTRIES.slice(0, 2))
    await fast.teller.tell(ENTRIES.slice(2))
    expect(fast.happened).toEqual([1, `${400 / 300} ms`, 2, '3000 ms', 3, '0 ms', 4])
  })

  it('tells step by step what is asked for, and no more', async () => {
    const keys = [true, false]
    const steps = told({ step: async () => keys.shift() ?? false })
    expect(await steps.teller.tell(ENTRIES)).toBe(false)
    expect(steps.happened).toEqual([1, 2])
  })

  it('of several passes is in the order in which everything was stored, and says of which pass each entry is', () => {
    const history = (...sequences: number[]) => sequences.map((sequence) => ({ sequence, time: sequence, kind: 'request', by: 'alice' }))
    const passes = [
      { key: { originator: 'alice', subagent: 'audit', id: 'the-first-pass' }, history: history(1, 4) },
      { key: { originator: 'bob', subagent: 'scout', id: 'the-other-pass' }, history: history(2, 3) },
      { key: { originator: 'bob', subagent: 'scout', id: 'nothing-is-left' } },
    ]
    const entries = playbackEntries(passes as never)
    expect(entries.map(({ sequence, pass, originator }) => [sequence, pass, originator])).toEqual([
      [1, 'the-first-pass', 'alice'],
      [2, 'the-other-pass', 'bob'],
      [3, 'the-other-pass', 'bob'],
      [4, 'the-first-pass', 'alice'],
    ])
    const line = (several: 'one pass' | 'several', more: Partial<PlaybackEntry> = {}) =>
      playbackLine(entry(1, 61_000, { pass: 'abcdefgh_the-other-pass', ...more }), { begun: 1_000, several })
    expect(line('several')).toMatch(/ \+1 min .*e-other-pass alice → audit {2}request/)
    expect(line('one pass')).not.toContain('other-pass')
    expect(line('one pass', { ignored: 'a second\nreturn' })).toContain('(ignored: a second return)')
  })
})
