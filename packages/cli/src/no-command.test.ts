import type { CommanderError } from 'commander'
import { describe, expect, it } from 'vitest'
import { missingCommand } from './no-command.js'
import { buildProgram } from './program.js'

async function missing(...argv: string[]) {
  const program = buildProgram()
  const error = await program.parseAsync(argv, { from: 'user' }).catch((thrown: CommanderError) => thrown)
  return missingCommand(error as CommanderError, program)
}

describe('a line without a command to run', () => {
  it('says which commands there are', async () => {
    expect(await missing('dlq', '--json')).toBe('passover dlq needs a command\n(One of: list, show, requeue, drop)')
    expect(await missing('--server', 'nats://here', '--json')).toMatch(/^passover needs a command\n\(One of: up, request, /)
  })

  it('says which of them is not known', async () => {
    expect(await missing('help', 'bogus', '--json')).toBe("unknown command 'bogus'")
  })

  it('is another fault than one that commander names', async () => {
    expect(await missing('shwo')).toBeUndefined()
  })
})
