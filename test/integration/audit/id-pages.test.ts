import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { IdIndexPages } from '@passover/archive'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'

/** Others make such files, too, where all make theirs. */
let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'passover-test-'))
  vi.stubEnv('TMPDIR', folder)
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(folder, { recursive: true, force: true })
})

// Fails where the file keeps its name: a killed audit would leave it there for good.
it('hashes of ids are found in a file that has no name', async () => {
  expect(tmpdir()).toBe(folder)
  await using pages = await IdIndexPages.open()
  await pages.add([{ k: 5, ids: Uint32Array.from({ length: 3_000 }, (_, n) => n * 1_000_000) }])
  expect([await pages.segmentsOf(2_999_000_000), await pages.segmentsOf(1)]).toEqual([[5], []])
  expect(readdirSync(folder)).toEqual([])
})
