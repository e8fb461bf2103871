import { describe, expect, it } from 'vitest'
import { parseWorkOutput, readOnlyHint } from './exit-status.js'

const said = (given: Partial<Parameters<typeof parseWorkOutput>[0]>) => ({
  exit: 0,
  signal: null,
  stdout: '',
  stderr: '',
  overflowed: false,
  ...given,
})
const failed = (given: Partial<Parameters<typeof parseWorkOutput>[0]>) => {
  const outcome = parseWorkOutput(said(given))
  return outcome.kind === 'error' ? { code: outcome.error.code, message: outcome.error.message } : outcome
}

describe('the output rule of `passover work`', () => {
  it('takes text as a completed output that carries it', () => {
    expect(parseWorkOutput(said({ stdout: 'all fine\n' }))).toEqual({
      kind: 'output',
      output: { status: 'completed', output: 'all fine\n' },
    })
    expect(parseWorkOutput(said({ stdout: '' }))).toEqual({ kind: 'output', output: { status: 'completed', output: '' } })
  })

  it('takes JSON without a status as text', () => {
    for (const stdout of ['{"answer":42}', '["status"]', '"status"', '42', '{"status": broken']) {
      expect(parseWorkOutput(said({ stdout }))).toEqual({ kind: 'output', output: { status: 'completed', output: stdout } })
    }
  })

  it('takes JSON with a valid status as the output, whatever the exit code', () => {
    const output = { status: 'failed', summary: { decision: 'rejected', findings: ['no'] } }
    for (const exit of [0, 1, 17]) {
      expect(parseWorkOutput(said({ exit, stdout: ` \n${JSON.stringify(output)}\n` }))).toMatchObject({ kind: 'output', output })
    }
  })

  it('calls JSON with a status that is no output E021, and keeps it', () => {
    const stdout = '{"status":"done"}'
    expect(failed({ stdout })).toMatchObject({ code: 'E021', message: expect.stringContaining('status: must be one of completed, failed') })
    expect(parseWorkOutput(said({ stdout }))).toMatchObject({ error: { context: { raw_output: stdout } } })
    expect(failed({ stdout: '{"status":"completed","artifacts":[{"type":"finding"}]}' })).toMatchObject({ code: 'E021' })
  })

  it('takes JSON that begins with a byte order mark for what it says', () => {
    for (const before of ['\ufeff', '\ufeff\r\n', '\n\ufeff'])
      expect(parseWorkOutput(said({ stdout: `${before}{"status":"failed"}\r\n` }))).toEqual({
        kind: 'output',
        output: { status: 'failed' },
      })
    expect(failed({ stdout: '\ufeff{"status":"done"}' })).toMatchObject({ code: 'E021' })
  })

  it('refuses an output with a name that would become a prototype', () => {
    for (const stdout of ['{"status":"completed","__proto__":{"a":1}}', '{"status":"completed","summary":{"x":{"__proto__":1}}}'])
      expect(failed({ stdout })).toMatchObject({ code: 'E021', message: expect.stringContaining('__proto__: this name is not allowed') })
  })

  it('calls a non-zero end without a valid output E011, with the end of stderr', () => {
    expect(failed({ exit: 3, stdout: 'half', stderr: 'no such file\n' })).toEqual({
      code: 'E011',
      message: 'the command exited with code 3: no such file',
    })
    expect(failed({ exit: 3, stdout: '{"status":"done"}', stderr: 'x' })).toMatchObject({ code: 'E011' })
    expect(failed({ exit: null, signal: 'SIGKILL' })).toMatchObject({ code: 'E011', message: expect.stringContaining('SIGKILL') })
  })

  it('keeps only the end of a long stderr', () => {
    const { message } = failed({ exit: 1, stderr: `${'x'.repeat(100_000)}the end` }) as { message: string }
    expect(message.length).toBeLessThan(2_200)
    expect(message).toMatch(/the end$/)
  })

  it('refuses what was too much', () => {
    expect(failed({ overflowed: true, stdout: '{"status":"completed"}' })).toMatchObject({ code: 'E014' })
    expect(parseWorkOutput(said({ overflowed: true }))).toMatchObject({ error: { recoverable: false } })
  })
})

it('a command that failed since it could not write is told why', () => {
  expect(readOnlyHint({ exit: 1, stderr: "touch: cannot touch 'x': Read-only file system" })).toContain('can_modify_files')
  expect(readOnlyHint({ exit: 1, stderr: 'Error: EROFS: read-only file system' })).toContain('can_modify_files')
  expect(readOnlyHint({ exit: 0, stderr: 'Read-only file system' })).toBeUndefined()
  expect(readOnlyHint({ exit: 1, stderr: 'something else' })).toBeUndefined()
})
