import { keyText, type PassKey } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { Query, type QueryDeps } from './query.js'
import { PassIndex } from './search/pass-index.js'

const ID = 'given-id-000000001'

function indexOf(keys: PassKey[]): PassIndex {
  const index = new PassIndex(1)
  const more = {
    session_id: undefined,
    status: 'returned',
    ended: 'ok',
    code: undefined,
    decided: '',
    created_at: 1,
    first: 1,
    ended_at: 2,
    returned: 2,
  }
  for (const [at, key] of keys.entries()) index.put({ ...more, key, revision: at + 1 }, 'old')
  return index
}

/** The passes that are found by an id, where nobody is registered any more; how often the bucket was asked. */
async function found(known: { memory?: PassKey[]; index: PassIndex; bucket?: PassKey[] }) {
  let asked = 0
  const table = {
    entries: async function* () {
      asked++
      for (const key of known.bucket ?? []) yield { value: { key } }
    },
  }
  const projector = { young: new Map(), old: new Map(), notes: new Map() }
  const rows = { values: () => known.memory ?? [] }
  const archive = { keysOf: async () => [] }
  const rest = { projector, rows, table, archive, index: known.index, indexing: { complete: true }, agents: new Map() }
  const keys = await new Query(rest as unknown as QueryDeps).keys({ id: ID })
  return { keys: keys.map(keyText).sort(), asked }
}

describe('passes with an id', () => {
  // Who approves would else decide about the only one that memory happens to know.
  it('are all found, where the index speaks of too many agents to try each with each', async () => {
    const others = Array.from({ length: 65 }, (_, n) => ({ originator: `agent${n}`, subagent: 'audit', id: `other-id-${n}0000000` }))
    const memory = [{ originator: 'agent0', subagent: 'audit', id: ID }]
    const bucket = [...memory, { originator: 'agent1', subagent: 'audit', id: ID }]
    const { keys, asked } = await found({ memory, index: indexOf([...others, ...bucket]), bucket })
    expect([keys, asked]).toEqual([[`agent0/audit/${ID}`, `agent1/audit/${ID}`], 1])
  })

  it('are all found in the index, where an agent is no longer registered, and the server is asked for nothing', async () => {
    const memory = [{ originator: 'alice', subagent: 'audit', id: ID }]
    const gone = { originator: 'bob', subagent: 'scout', id: ID }
    const { keys, asked } = await found({ memory, index: indexOf([...memory, gone]), bucket: [...memory, gone] })
    expect([keys, asked]).toEqual([[`alice/audit/${ID}`, `bob/scout/${ID}`], 0])
  })
})
