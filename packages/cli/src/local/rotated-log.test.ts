import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { rotatedLog } from './rotated-log.js'

it('keeps three files of a size, the newest lines in the first, also of a log that an earlier version left large', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'passover-log-'))
  const path = join(folder, 'passover.log')
  writeFileSync(path, 'x'.repeat(5_000))
  const log = rotatedLog(path, 1_000)
  await new Promise((ready) => log.once('ready', ready))
  for (let n = 0; n < 200; n++) {
    const written = new Promise((done) => log.once('write', done))
    log.write(`line ${String(n).padStart(4, '0')} ${'y'.repeat(90)}\n`)
    await written
  }
  const ended = new Promise((closed) => log.once('close', closed))
  log.end()
  await ended
  expect(readdirSync(folder).sort()).toEqual(['passover.log', 'passover.log.1', 'passover.log.2'])
  const texts = ['passover.log.2', 'passover.log.1', 'passover.log'].map((name) => readFileSync(join(folder, name), 'utf8'))
  for (const text of texts) expect(text.length).toBeLessThan(1_500)
  const lines = texts.join('').match(/line \d{4}/g) ?? []
  expect(lines.at(-1)).toBe('line 0199')
  // Without a gap.
  expect(lines).toEqual(Array.from({ length: lines.length }, (_, n) => `line ${String(200 - lines.length + n).padStart(4, '0')}`))
  rmSync(folder, { recursive: true })
})
