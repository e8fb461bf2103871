import { exitCode } from '@passover/core'
import { ERROR_CODES } from '@passover/schemas'
import { type Command, CommanderError } from 'commander'
import { describe, expect, it } from 'vitest'
import { EXIT_CODES, EXIT_CODES_HELP, INTERRUPTED } from './errors.js'
import { buildProgram } from './program.js'
import { JSON_SHAPES } from './render/json-schemas.js'

function everyCommand(command: Command): Command[] {
  return [command, ...command.commands.flatMap(everyCommand)]
}

function failure(argv: string[]): Promise<CommanderError> {
  return buildProgram()
    .parseAsync(argv, { from: 'user' })
    .then(
      () => {
        throw new Error('it passed')
      },
      (error: CommanderError) => error,
    )
}

it('documents each exit code that an error ends with', () => {
  const documented = EXIT_CODES.map(([code]) => code)
  const used = ERROR_CODES.map((code) => exitCode({ code }))
  expect(documented).toEqual(expect.arrayContaining([0, ...used, exitCode({ code: 'E013', details: { approval: 'denied' } }), INTERRUPTED]))
  for (const [code, what] of EXIT_CODES) expect(EXIT_CODES_HELP).toMatch(new RegExp(`^  ${code} +${what}$`, 'm'))
})

it('documents what each command prints under --json, and nothing else', () => {
  const named = (command: Command, above: string[]): string[] => [
    // A command that has others below it may do something by itself.
    ...(command.commands.length === 0 || ['agents', 'evidence', 'gateway'].includes(above.join(' ')) ? [above.join(' ')] : []),
    ...command.commands.flatMap((one) => named(one, [...above, one.name()])),
  ]
  expect(Object.keys(JSON_SHAPES).sort()).toEqual(named(buildProgram(), []).sort())
})

describe('the command tree', () => {
  const program = buildProgram()

  it('has the commands of the issue', () => {
    expect(program.commands.map((command) => command.name())).toEqual([
      'init',
      'up',
      'request',
      'retry',
      'work',
      'list',
      'show',
      'logs',
      'watch',
      'top',
      'cancel',
      'inbox',
      'approve',
      'deny',
      'apply',
      'undo',
      'dlq',
      'audit',
      'agents',
      'auth',
      'policy',
      'verify',
      'evidence',
      'replay',
      'gateway',
      'doctor',
      'config',
      'chaos',
      'completion',
    ])
  })

  it('lists each flag once in a help text', () => {
    for (const command of everyCommand(program)) {
      const flags = command.helpInformation().match(/^ {2}(?:-\w, )?--[\w-]+/gm) ?? []
      expect(flags, command.name()).toEqual([...new Set(flags)])
    }
  })

  it('explains every command, argument and flag', () => {
    for (const command of everyCommand(program)) {
      expect(command.description(), command.name()).not.toBe('')
      for (const option of command.options) expect(option.description, `${command.name()} ${option.flags}`).not.toBe('')
      for (const argument of command.registeredArguments) expect(argument.description, `${command.name()} ${argument.name()}`).not.toBe('')
    }
  })

  it('means the same by the same flag everywhere', () => {
    const seen = new Map<string, string>()
    for (const command of everyCommand(program)) {
      for (const option of command.options) {
        const shape = `${option.required || option.optional ? 'value' : 'switch'}`
        const key = option.long ?? option.flags
        expect(seen.get(key) ?? shape, `${command.name()} ${key}`).toBe(shape)
        seen.set(key, shape)
      }
    }
  })

  it('does not reuse a global flag for something else', () => {
    const globals = program.options.map((option) => option.long)
    for (const command of everyCommand(program).slice(1)) {
      for (const option of command.options) expect(globals, `${command.name()} ${option.long}`).not.toContain(option.long)
    }
  })

  it('throws usage errors, with a suggestion for what is misspelt', async () => {
    expect((await failure(['shwo', 'x'])).message).toContain('Did you mean show?')
    expect((await failure(['list', '--limt', '3'])).message).toContain('Did you mean --limit?')
    expect((await failure(['list', '--limit', 'many'])).message).toContain('whole number')
    expect((await failure(['request', '--to', 'echo', '--objective', 'x', '--timeout', '30'])).message).toContain('with a unit')
    expect((await failure(['request', '--to', 'a.b', '--objective', 'x'])).message).toContain('name')
    expect((await failure(['request', '--to', 'passover', '--objective', 'x'])).message).toContain('reserved')
    expect((await failure(['list', 'surplus'])).message).toContain('too many arguments')
  })

  it('takes no abbreviation of a command or flag', async () => {
    expect(await failure(['li'])).toBeInstanceOf(CommanderError)
    expect(await failure(['list', '--lim', '3'])).toBeInstanceOf(CommanderError)
  })
})
