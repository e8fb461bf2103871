import { describe, expect, it, vi } from 'vitest'
import { checkUp, renderHealth } from './processes.js'

const NOW = 1_800_000_000_000

describe('a running up', () => {
  const check = { name: 'dispatcher.stream', weight: 'needed', state: 'ok', since: NOW - 5_000, what: '', restart_helps: false } as const
  const report = (...checks: Parameters<typeof renderHealth>[0]['checks']) =>
    renderHealth({ v: 1, process: 'up', live: true, ready: true, checks }, NOW)

  it('is ready, and says what it mended', () => {
    expect(report(check)).toMatchObject([{ state: 'ok', text: 'up is ready' }])
    const did = { what: 'made policy anew', at: NOW - 60_000, times: 1 }
    expect(report({ ...check, did })[0]?.text).toBe('up is ready; it repaired: dispatcher.stream: made policy anew (1 min ago)')
  })

  it('tells what is wrong with it', () => {
    const gone = { ...check, state: 'failed' as const, what: 'it is gone' }
    expect(report(gone, { ...gone, weight: 'told' as const, restart_helps: true })).toMatchObject([
      { state: 'broken', text: 'dispatcher.stream: it is gone (for 5.0 s)' },
      { state: 'look', mend: 'restart it' },
    ])
  })

  it('says in plain words what is wrong with an answer that is no report', async () => {
    vi.stubGlobal('fetch', () => Promise.resolve(new Response('{"v":1,"process":"up","live":true,"ready":"yes","checks":[]}')))
    const [told] = await checkUp('http://up', NOW)
    expect(told?.text).toContain('(ready: must be true or false, not text)')
  })

  it('is told under the name of who was asked', () => {
    expect(renderHealth({ v: 1, process: 'gateway', live: true, ready: true, checks: [check] }, NOW, 'gateway')).toMatchObject([
      { name: 'gateway', text: 'gateway is ready' },
    ])
  })
})
