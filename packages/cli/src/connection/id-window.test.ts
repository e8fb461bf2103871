import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BusReadError } from '@passover/bus'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { archiveIdWindow, readIdWindow } from './id-window.js'

/** A connection that was told, or is, when it asks. */
function busOf({ known, told, error, service }: { known?: number; told?: number; error?: Error; service?: boolean | Error }) {
  let idWindow = known
  const asked: string[] = []
  return {
    asked,
    get idWindow() {
      return idWindow
    },
    async bounds() {
      asked.push('stream')
      if (error) throw error
      idWindow = told
      return { first: 0, last: 0 }
    },
    async measureClock() {
      asked.push('service')
      if (service instanceof Error) throw service
      if (service) idWindow = told
      return service ?? false
    },
  }
}

describe('rulesOf', () => {
  it('is as the stream said it; who was not told on connecting asks, and a stream that says none has an hour', async () => {
    const known = busOf({ known: 5_000 })
    expect([await readIdWindow(known), known.asked]).toEqual([{ id_window_ms: 5_000 }, []])
    expect(await readIdWindow(busOf({ told: 7_000 }))).toEqual({ id_window_ms: 7_000 })
    expect(await readIdWindow(busOf({}))).toEqual({ id_window_ms: 3_600_000 })
  })

  it('is told by the audit to who may not ask the stream', async () => {
    const error = new BusReadError('not allowed', 'permission')
    expect(await readIdWindow(busOf({ error, service: true, told: 9_000 }))).toEqual({ id_window_ms: 9_000 })
  })

  it('is never an hour because nobody could be asked', async () => {
    const permission = new BusReadError('not allowed', 'permission')
    const timeout = new BusReadError('the stream does not answer', 'timeout')
    for (const bus of [
      { error: timeout, service: true },
      { error: permission, service: false },
      { error: permission, service: new Error('no') },
    ]) {
      await expect(readIdWindow(busOf(bus))).rejects.toMatchObject({
        code: 'E040',
        message: `cannot read the id window of the installation: ${bus.error.message}`,
        hint: expect.stringContaining('--id-window <time>'),
      })
    }
    await expect(readIdWindow(busOf({ error: new TypeError('a bug') }))).rejects.toThrow(TypeError)
  })
})

describe('windowOf', () => {
  let folder: string
  const notes: string[] = []
  const terminal = { note: (text: string) => void notes.push(text) }
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'window-'))
    notes.length = 0
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  it('is what is asked for, else what the folder says, and says so where that is nothing', async () => {
    expect(await archiveIdWindow(terminal, folder, 5_000)).toBe(5_000)
    writeFileSync(join(folder, 'archive.json'), JSON.stringify({ v: 1, id_window_ms: 8_000 }))
    expect(await archiveIdWindow(terminal, folder, undefined)).toBe(8_000)
    expect(notes).toEqual([])
    rmSync(join(folder, 'archive.json'))
    await expect(archiveIdWindow(terminal, folder, undefined)).rejects.toThrow(`there is no manifest.jsonl in ${folder}`)
    expect(notes).toEqual([])
    writeFileSync(join(folder, 'manifest.jsonl'), '')
    expect(await archiveIdWindow(terminal, folder, undefined)).toBe(3_600_000)
    expect(notes).toEqual([`! ${folder} does not record its id window; using 1 h (--id-window sets another)`])
  })
})
