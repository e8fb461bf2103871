import { type Bus, CONTENT_TYPE, encode } from '@passover/bus'
import type { AnsweredPass } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { readResult } from './result.js'

const bus = { parts: { fetch: async () => encode({ type: 'message' }, 'json') } } as unknown as Bus

const key = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }
const output = (more: object = {}) => ({
  work_id: key.id,
  subagent_id: key.subagent,
  originating_agent_id: key.originator,
  status: 'completed',
  artifacts: [],
  summary: { findings: [], files_modified: 0, files_reviewed: 0, issues_found: 0, time_elapsed_ms: 5 },
  return_to: key.originator,
  auto_apply_allowed: false,
  metadata: {
    created_at: 1_000,
    started_at: 1_001,
    completed_at: 1_002,
    pass_over_id: key.id,
    chain_depth: 1,
    origination_chain: [],
    wall_time_ms: 2,
    subagent_compute_ms: 1,
    applied: false,
  },
  ...more,
})

function pass(body: unknown, type: 'msgpack' | 'json' = 'msgpack'): AnsweredPass {
  const data = body instanceof Uint8Array ? body : encode(body, type)
  return {
    key,
    return: { sequence: 1, time: 1, by: 'audit', attempt: 1, content_type: CONTENT_TYPE[type], data },
  } as unknown as AnsweredPass
}

describe('what came back', () => {
  it('is nothing while there is nothing', async () => {
    expect(await readResult(bus, {} as AnsweredPass)).toBeUndefined()
    expect(await readResult(bus, { return_left_out: true } as AnsweredPass)).toMatchObject({
      unreadable: expect.stringContaining('too large'),
    })
  })

  it('is an output, with its parts fetched, in either form', async () => {
    expect(await readResult(bus, pass({ v: 1, output: output() }))).toEqual({ output: output() })
    expect(await readResult(bus, pass(output(), 'json'))).toEqual({ output: output() })
  })

  it.each([
    ['findings that are no text', { summary: { ...output().summary, findings: [{ severity: 'critical' }] } }],
    ['artifacts that are no list', { artifacts: 'none' }],
    ['another pass', { work_id: 'another' }],
  ])('is an error where an output has %s', async (_, wrong) => {
    expect(await readResult(bus, pass({ v: 1, output: output(wrong) }))).toMatchObject({ error: { code: expect.stringMatching(/^E0/) } })
  })

  it('is an error, with the raw output kept', async () => {
    const error = { code: 'E021', message: 'no output' }
    expect(await readResult(bus, pass({ v: 1, error, raw_output: 'x' }))).toEqual({ error, raw_output: 'x' })
    expect(await readResult(bus, pass({ v: 1, error }))).toEqual({ error })
    expect(await readResult(bus, pass({ v: 1, error: { code: 'E999' } }))).toMatchObject({ unreadable: expect.any(String) })
  })

  it('is unreadable where it is neither', async () => {
    expect(await readResult(bus, pass(new Uint8Array([0xc1])))).toMatchObject({ unreadable: expect.any(String) })
    expect(await readResult(bus, pass(['a list']))).toMatchObject({ unreadable: 'it is not an object' })
    expect(await readResult(bus, pass({ v: 1, output: { artifacts: [{ part: 'artifact:0' }] } }))).toMatchObject({
      unreadable: expect.stringContaining('missing'),
    })
  })
})
