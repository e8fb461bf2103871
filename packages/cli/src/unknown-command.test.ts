import type { CommanderError } from 'commander'
import { describe, expect, it, vi } from 'vitest'
import { buildProgram } from './program.js'
import { missingCommandMessage, namedCommand, usageHint } from './unknown-command.js'

async function missing(...argv: string[]) {
  const program = buildProgram()
  const error = await program.parseAsync(argv, { from: 'user' }).catch((thrown: CommanderError) => thrown)
  return missingCommandMessage(error as CommanderError, program)
}

describe('a line without a command to run', () => {
  it('says which commands there are', async () => {
    expect(await missing('dlq', '--json')).toBe('passover dlq needs a command\n(One of: list, show, requeue, drop)')
    expect(await missing('--as', 'show', 'dlq', '--server', 'list')).toBe(
      'passover dlq needs a command\n(One of: list, show, requeue, drop)',
    )
    expect(await missing('--server', 'nats://here', '--json')).toMatch(/^passover needs a command\n\(One of: init, up, request, /)
  })

  it('says which of them is not known', async () => {
    expect(await missing('help', 'bogus', '--json')).toMatch(/^error: unknown command 'bogus'/)
    expect(await missing('help', 'shwo')).toContain('(Did you mean show?)')
    expect(await missing('help', 'policy', 'dif')).toContain('(Did you mean diff?)')
  })

  it('is no request for help where it names a command that does not exist', async () => {
    const ended = (...argv: string[]) =>
      buildProgram()
        .parseAsync(argv, { from: 'user' })
        .catch((error: CommanderError) => error)
    for (const argv of [
      ['shwo', '--help'],
      ['--json', 'shwo', '-h'],
      ['policy', 'chekc', '--help'],
      ['agents', 'ad', '--help'],
    ])
      expect(await ended(...argv), argv.join(' ')).toMatchObject({ code: 'commander.unknownCommand', exitCode: 1 })
    const print = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
    for (const argv of [
      ['--help'],
      ['show', '--help'],
      ['policy', '--help'],
      ['policy', 'check', '-h'],
      ['show', 'x', '--help'],
      ['help', 'policy'],
    ])
      expect(await ended(...argv), argv.join(' ')).toMatchObject({ exitCode: 0 })
    expect(print.mock.calls.length).toBeGreaterThanOrEqual(6)
  })

  it('names the commands that a subcommand without its parent may mean, and the options of a command that takes no argument', async () => {
    const hint = async (...argv: string[]) => {
      const program = buildProgram()
      const error = await program.parseAsync(argv, { from: 'user' }).catch((thrown: CommanderError) => thrown)
      return usageHint(error as CommanderError, argv, program)
    }
    expect(await hint('stats')).toBe('did you mean: passover audit stats')
    expect(await hint('help', 'stats')).toBe('did you mean: passover audit stats')
    expect(await hint('hold', 'list')).toBe('did you mean: passover audit hold')
    expect(await hint('requeue', 'x')).toBe('did you mean: passover dlq requeue')
    expect(await hint('policy', 'export')).toBe('did you mean: passover audit export')
    expect(await hint('shwo')).toBeUndefined()
    expect(await hint('audit', 'export', '/tmp/x')).toMatch(/^passover audit export takes options only: --out <folder>, --since <time>, /)
    expect(await hint('show', 'one', 'two')).toBeUndefined()
  })

  it('names the command whose help explains it', () => {
    const program = buildProgram()
    expect(namedCommand(['--json', 'policy', 'diff', 'x'], program)).toBe('passover policy diff')
    expect(namedCommand(['--wrong'], program)).toBe('passover')
    expect(namedCommand(['help', 'policy', 'dif'], program)).toBe('passover policy')
    expect(namedCommand(['policy', 'help', 'dif'], program)).toBe('passover policy')
  })

  it.each([
    [['--server', 'x', 'list', '--limit', 'many'], 'passover list'],
    [['--as', 'list', 'policy', '--directory', 'diff', 'check'], 'passover policy check'],
    [['--as=ann', 'dlq', '--server', 'show', 'list'], 'passover dlq list'],
    [['shwo', 'list'], 'passover'],
    [['--server'], 'passover'],
  ])('skips the values of options: %j', (line, named) => {
    expect(namedCommand(line, buildProgram())).toBe(named)
  })

  it('is another fault than one that commander names', async () => {
    expect(await missing('shwo')).toBeUndefined()
  })
})
