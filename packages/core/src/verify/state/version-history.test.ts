import { policyDigest } from '@passover/schemas'
import { expect, it } from 'vitest'
import type { RecordedMessage } from './recorded-message.js'
import { VersionHistory } from './version-history.js'

function recorded(version: number): RecordedMessage {
  const body = { v: 1, version, base: version - 1, document: {}, digest: policyDigest({} as never) }
  return { fact: { type: 'other', sequence: version, time: version }, body: () => body } as never
}

/** What is said of each version in turn. */
function said(whole: boolean, ...versions: number[]) {
  const told = new VersionHistory(whole)
  return versions.map((version) => told.policy(recorded(version)))
}

it('a jump in the numbers of versions is a fault, but where what was before is not read', () => {
  expect(said(true, 1, 2)).toEqual([{}, {}])
  expect(said(true, 3)).toEqual([{ fault: 'policy version 3 comes after version 0' }])
  expect(said(false, 3, 5)).toEqual([{}, { fault: 'policy version 5 comes after version 3' }])
  expect(said(true, 1, 1)).toEqual([{}, { remark: 'policy version 1 was already published' }])
})
