import { expect, it } from 'vitest'
import { RecordRepair, type RecordRepairDeps } from './record-repair.js'

/** A repair that notes what it reads. The archive's indexes are read when `indexed` is called. */
function repairer() {
  const calls: string[] = []
  let indexed: () => void = () => undefined
  const prepared = new Promise<void>((resolve) => {
    indexed = resolve
  })
  const bounds = async () => {
    calls.push('bounds')
    throw new Error('the server does not answer')
  }
  const deps = { bus: { bounds }, archive: { finder: { prepare: () => prepared } } } as unknown as RecordRepairDeps
  return { repair: new RecordRepair(deps), calls, indexed }
}

it.each([
  ['passes', (repair: RecordRepair) => repair.passes([{ originator: 'alice', subagent: 'audit', id: 'pass-1' }])],
  ['records', (repair: RecordRepair) => repair.records(['2026-12.-.alice.audit.pass-1'])],
])('judges no %s before all indexes of the archive are read, because older passes would seem to have no messages', async (_, ask) => {
  const { repair, calls, indexed } = repairer()
  const asked = ask(repair)
  await new Promise(setImmediate)
  expect(calls).toEqual([])
  indexed()
  await expect(asked).rejects.toThrow('the server does not answer')
  expect(calls).toEqual(['bounds'])
})
