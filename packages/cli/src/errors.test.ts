import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SegmentDamaged } from '@passover/archive'
import { BusReadError, ObjectError, TableError } from '@passover/bus'
import { PassOverError } from '@passover/core'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { CliFailure, describeFailure, usage } from './errors.js'

describe('a failure', () => {
  it('prints cause and mend, and exits as the error table says', async () => {
    expect(await describeFailure(new CliFailure('E041', 'no such pass', { hint: 'passover list' }))).toEqual({
      document: { error: { code: 'E041', message: 'no such pass', hint: 'passover list' } },
      exit: 3,
    })
    expect(await describeFailure(new CliFailure('E040', 'gone'))).toEqual({
      document: { error: { code: 'E040', message: 'gone' } },
      exit: 5,
    })
    expect(await describeFailure(usage('what?'))).toEqual({ document: { error: { code: 'E042', message: 'what?' } }, exit: 2 })
    expect(await describeFailure(new PassOverError('E003', 'a → a'))).toMatchObject({
      document: { error: { code: 'E003', hint: expect.any(String) } },
      exit: 4,
    })
  })

  it('of an approval exits 6, other refusals 4', async () => {
    expect((await describeFailure(new PassOverError('E013', 'no', { approval: 'denied' }))).exit).toBe(6)
    expect((await describeFailure(new PassOverError('E013', 'late', { approval: 'expired' }))).exit).toBe(6)
    expect((await describeFailure(new PassOverError('E013', 'rights'))).exit).toBe(4)
  })

  it('names the fields of a value that a schema refuses, without JSON of the schema library', async () => {
    const refused = z.object({ port: z.number() }).safeParse({ port: 'x' }).error
    expect((await describeFailure(refused)).document.error.message).toBe('port: must be a number, not text')
  })

  it('of a pass says where it can be looked up', async () => {
    const { document } = await describeFailure(Object.assign(new PassOverError('E010', 'slow'), { pass_id: '0abc' }))
    expect(document.error.hint).toMatch(/passover show 0abc$/)
    const mended = await describeFailure(Object.assign(new PassOverError('E010', 'slow'), { pass_id: '0abc', mend: 'start a worker.' }))
    expect(mended.document.error.hint).toBe('start a worker. More: passover show 0abc')
  })

  it('says what whoever refused it knows to mend', async () => {
    const refused = new PassOverError('E013', 'alice is not registered', { mend: 'passover agents add alice --originates always' })
    expect((await describeFailure(refused)).document.error.hint).toBe('passover agents add alice --originates always')
    expect((await describeFailure(Object.assign(refused, { pass_id: '0abc' }))).document.error.hint).toBe(
      'passover agents add alice --originates always. More: passover show 0abc',
    )
  })

  it('of a limit that frees itself says how long to wait, where that is told', async () => {
    const { document } = await describeFailure(new PassOverError('E014', 'too many', { retry_after_ms: 23_934 }))
    expect(document.error).toEqual({ code: 'E014', message: 'too many', hint: 'Try again after 23.9 s.', retry_after_ms: 23_934 })
    const spent = new PassOverError('E014', 'spent', { recoverable: false, mend: 'request it in another session' })
    expect((await describeFailure(spent)).document.error).toEqual({
      code: 'E014',
      message: 'spent',
      hint: 'request it in another session.',
    })
  })

  it('names the path that cannot be used, and its folder if that is missing', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'path-fault-'))
    const failed = async (act: () => void) => {
      try {
        act()
      } catch (error) {
        return await describeFailure(error)
      }
      throw new Error('it did not fail')
    }
    try {
      const file = join(folder, 'file')
      writeFileSync(file, '')
      const told = (message: string) => ({ document: { error: { code: 'E042', message } }, exit: 2 })
      expect(await failed(() => writeFileSync(join(folder, 'none', 'file'), ''))).toMatchObject(
        told(`${join(folder, 'none')} cannot be used: folder not found`),
      )
      expect(await failed(() => writeFileSync(folder, ''))).toMatchObject(told(`${folder} cannot be used: it is a folder`))
      const other = join(folder, 'other')
      mkdirSync(other)
      expect(await failed(() => renameSync(file, other))).toMatchObject(told(`${other} cannot be used: it is a folder`))
    } finally {
      rmSync(folder, { recursive: true })
    }
    const unstarted = Object.assign(new Error('spawn bwrap ENOENT'), { code: 'ENOENT', syscall: 'spawn bwrap', path: 'bwrap' })
    expect((await describeFailure(unstarted)).document.error.code).toBe('INTERNAL')
  })

  it('of the server or of what it keeps is no fault of passover', async () => {
    expect(await describeFailure(new BusReadError('nobody answers', 'timeout'))).toMatchObject({
      document: { error: { code: 'E040' } },
      exit: 5,
    })
    const writes = (reason: 'permission' | 'full') => new TableError('not written', { kind: 'refused', reason, description: '' })
    for (const [error, code] of [
      [new BusReadError('not allowed', 'permission'), 'E013'],
      [writes('permission'), 'E013'],
      [writes('full'), 'E014'],
      [new TableError('not written', { kind: 'unknown', description: '' }), 'E040'],
      [new ObjectError('not written', { kind: 'refused', reason: 'permission', description: '' }), 'E013'],
    ] as const)
      expect(await describeFailure(error), code).toMatchObject({ document: { error: { code } } })
    expect(await describeFailure(new SegmentDamaged('object 1.index is missing', 0))).toMatchObject({
      document: {
        error: { code: 'E041', message: 'the archive is damaged: object 1.index is missing', hint: expect.stringContaining('rebuild') },
      },
      exit: 1,
    })
  })

  it('that nobody foresaw never exits 0', async () => {
    expect(await describeFailure(new TypeError('oops'))).toMatchObject({
      document: { error: { code: 'INTERNAL', message: 'oops' } },
      exit: 1,
    })
    expect(await describeFailure('text')).toMatchObject({ document: { error: { message: 'text' } }, exit: 1 })
  })
})
