import { expect, it } from 'vitest'
import { KEY, RULES, requestOf, returnOf, subjects, workOf } from '../../testing/samples.js'
import { sealed } from '../../testing/sealed.js'
import { checkEntry, type InboxDeps, mayDecide } from './answer-inbox.js'
import type { WaitingEntry } from './inbox.js'

it('an item is for its approvers, else for everybody, but never for who takes part in the pass', () => {
  const chain = ['alice', 'scout', 'audit']
  expect(['maria', 'alice', 'scout', 'audit'].map((name) => mayDecide({ chain }, name))).toEqual([true, false, false, false])
  const approvers = ['maria', 'scout']
  expect(['maria', 'scout', 'jonas'].map((name) => mayDecide({ chain, approvers }, name))).toEqual([true, false, false])
})

it('keeps an entry until all indexes of the archive are read, if its pass is not found before', async () => {
  const archive = sealed(2, [requestOf(1), workOf(2), returnOf(3)])
  const dropped: unknown[] = []
  const bus = {
    subjects,
    bounds: async () => ({ first: 1, last: 10 }),
    journal: { history: async () => [], message: async () => undefined },
  }
  const deps = { bus, archive, rules: RULES, inbox: { drop: (entry: unknown) => dropped.push(entry) } } as unknown as InboxDeps
  const entry = { key: KEY, item: 'return' } as WaitingEntry
  expect([await checkEntry(deps, entry), dropped]).toEqual([undefined, []])
  await archive.finder.prepare()
  expect([await checkEntry(deps, entry), dropped]).toEqual([undefined, [entry]])
})
