import { healthReport } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { type Finding, Health, type HealthChange, healthy, joinReports, tellReconnects, unhealthyIf, watchConnection } from './health.js'

function world() {
  const changes: HealthChange[] = []
  const timers: (() => void)[] = []
  let now = 1_000
  const clock = {
    now: () => now,
    monotonic: () => now,
    after: (_: number, fn: () => void) => {
      timers.push(fn)
      return { [Symbol.dispose]: () => void timers.splice(0) }
    },
  }
  const health = new Health({ process: 'dispatcher', clock, onChange: (change) => changes.push(change) })
  return { health, changes, timers, at: (ms: number) => (now = ms) }
}

describe('health', () => {
  it('is ready while all that is needed is ok, whatever is only told', () => {
    const { health } = world()
    let needed: Finding = healthy()
    health.watch('consumer', 'needed', () => needed)
    health.watch('presence', 'told', () => unhealthyIf('cannot be written'))
    expect(health.report()).toMatchObject({ live: true, ready: true })
    needed = unhealthyIf('it is gone')
    expect(health.report()).toMatchObject({ live: true, ready: false, checks: [{ state: 'recovering', what: 'it is gone' }, {}] })
    needed = healthy('all of it')
    expect(health.report()).toMatchObject({ ready: true, checks: [{ state: 'ok', what: 'all of it' }, {}] })
    expect(healthReport.parse(health.report())).toEqual(health.report())
  })

  it('is not live only where a restart would help', () => {
    const { health } = world()
    let finding: Finding = { state: 'failed', what: 'the stream is another', restart_helps: false }
    health.watch('stream', 'needed', () => finding)
    expect(health.report()).toMatchObject({ live: true, ready: false })
    finding = { state: 'failed', what: 'the reader ended', restart_helps: true }
    expect(health.report()).toMatchObject({ live: false, ready: false })
  })

  it('says since when, and tells each change once', () => {
    const { health, changes, at } = world()
    let trouble: string | undefined
    health.watch('stream', 'needed', () => unhealthyIf(trouble))
    health.report()
    expect(changes).toEqual([])
    at(2_000)
    trouble = 'gone'
    health.report()
    at(3_000)
    trouble = 'still gone'
    health.report()
    health.did('stream', 'looked again')
    health.did('nothing', 'never told')
    at(4_000)
    trouble = undefined
    const { checks } = health.report()
    expect(changes.map(({ check, was }) => [was, check.state, check.since])).toEqual([
      ['ok', 'recovering', 2_000],
      ['recovering', 'recovering', 2_000],
      ['recovering', 'ok', 4_000],
    ])
    expect(checks[0]).toMatchObject({ state: 'ok', since: 4_000, did: { what: 'looked again', at: 3_000, times: 1 } })
  })

  it('tells what is wrong from the beginning, and looks by itself until it is stopped', () => {
    const { health, changes, timers } = world()
    let trouble: string | undefined = 'not yet'
    health.watch('policy', 'needed', () => unhealthyIf(trouble))
    health.begin()
    expect(changes.map(({ was }) => was)).toEqual([undefined])
    trouble = undefined
    timers.shift()?.()
    expect(changes.map(({ check }) => check.state)).toEqual(['recovering', 'ok'])
    health.stop()
    expect(timers).toEqual([])
    health.begin()
    expect(timers).toEqual([])
  })

  it('takes a look that throws for a bug: a restart may help', () => {
    const { health } = world()
    health.watch('x', 'needed', () => {
      throw new Error('y'.repeat(2_000))
    })
    const { live, checks } = health.report()
    expect(live).toBe(false)
    expect(checks[0]?.what.length).toBe(1_024)
    health.watch('x', 'needed', () => {
      throw 'text'
    })
    expect(health.report().checks[0]?.what).toContain('text')
  })

  it('joins the reports of several parts', () => {
    const one = world()
    const other = world()
    one.health.watch('a', 'needed', () => healthy())
    other.health.watch('a', 'needed', () => unhealthyIf('no'))
    const joined = joinReports('up', [one.health.report(), other.health.report()])
    expect(joined).toMatchObject({ process: 'up', live: true, ready: false })
    expect(joined.checks.map(({ name, state }) => [name, state])).toEqual([
      ['dispatcher.a', 'ok'],
      ['dispatcher.a', 'recovering'],
    ])
  })

  it('looks at server and clock', () => {
    const { health } = world()
    const bus = { connected: true, clockMeasured: true }
    watchConnection(health, bus)
    expect(health.report().ready).toBe(true)
    bus.connected = false
    bus.clockMeasured = false
    expect(health.report().checks.map(({ state }) => state)).toEqual(['recovering', 'recovering'])
  })

  it('goes on telling that the server was lost and is there again', () => {
    const { health, at } = world()
    const listeners: (() => void)[] = []
    watchConnection(health, { connected: true, clockMeasured: true })
    tellReconnects(health, { onReconnect: (listener) => listeners.push(listener) })
    at(5_000)
    for (const reconnected of listeners) reconnected()
    expect(health.report().checks[0]).toMatchObject({ name: 'connection', state: 'ok', did: { what: 'reconnected', at: 5_000, times: 1 } })
  })
})
