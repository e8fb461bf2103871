import { describe, expect, it } from 'vitest'
import { CLUSTER_FAULTS, FAULTS } from '../options.js'
import { makeSchedule, type ScheduleOptions } from './schedule.js'

const options: ScheduleOptions = {
  seed: 7,
  length_ms: 600_000,
  faults: FAULTS,
  servers: ['n1', 'n2', 'n3'],
  processes: { dispatcher: ['d1', 'd2'], audit: ['audit'] },
  parties: ['agents'],
}

describe('a schedule', () => {
  it('is the same for the same seed, and another one for another', () => {
    expect(makeSchedule(options)).toEqual(makeSchedule({ ...options }))
    expect(makeSchedule(options)).not.toEqual(makeSchedule({ ...options, seed: 8 }))
  })

  it('gives each fault of the servers its turn, one at a time, within its length', () => {
    const servers = makeSchedule(options).filter(({ fault }) => (CLUSTER_FAULTS as readonly string[]).includes(fault))
    const first = servers.slice(0, CLUSTER_FAULTS.length).map(({ fault }) => fault)
    expect(new Set(first).size).toBe(CLUSTER_FAULTS.length)
    for (const [i, { at_ms, for_ms }] of servers.entries()) {
      expect(at_ms).toBeLessThan(options.length_ms)
      expect(servers[i + 1]?.at_ms ?? Number.POSITIVE_INFINITY).toBeGreaterThan(at_ms + for_ms)
    }
  })

  it('leaves one of a kind awake, and who is alone only ever killed', () => {
    for (let seed = 0; seed < 50; seed += 1) {
      const away = new Map<string, number>()
      for (const { fault, target, at_ms, for_ms } of makeSchedule({ ...options, seed, faults: ['kill', 'freeze'] })) {
        if (target === 'audit') expect(fault).toBe('kill')
        if (fault === 'freeze') away.set(target, at_ms + for_ms)
        const other = target === 'd1' ? 'd2' : 'd1'
        if (target !== 'audit') expect(away.get(other) ?? 0).toBeLessThanOrEqual(at_ms)
      }
    }
  })

  it('does only what is asked for, and what one server can stand', () => {
    const few = makeSchedule({ ...options, faults: ['slow', 'kill'] })
    expect(new Set(few.map(({ fault }) => fault))).toEqual(new Set(['slow', 'kill']))
    const one = makeSchedule({ ...options, servers: ['n1'] })
    for (const { fault } of one) expect(['leader-kill', 'disk-full', 'flip']).not.toContain(fault)
  })

  it('fills a segment soon, so that a run of a minute has something that leaves the stream, and again now and then', () => {
    for (let seed = 0; seed < 50; seed += 1) {
      const seals = makeSchedule({ ...options, seed }).filter(({ fault }) => fault === 'seal')
      expect(seals[0]?.at_ms).toBeLessThanOrEqual(8_000)
      expect(seals.length).toBeGreaterThanOrEqual(options.length_ms / 60_000)
    }
    expect(makeSchedule({ ...options, faults: ['kill'] }).filter(({ fault }) => fault === 'seal')).toEqual([])
  })
})
