import { describe, expect, it } from 'vitest'
import { usageFailure } from './main.js'
import { buildProgram } from './program.js'

async function said(...argv: string[]) {
  const error = await buildProgram()
    .parseAsync(argv, { from: 'user' })
    .catch((thrown: Error) => thrown)
  return usageFailure(error as Error).document.error
}

describe('a mistake on the command line', () => {
  it('about a value says the value, and what would be right', async () => {
    expect(await said('list', '--limit', 'many')).toMatchObject({
      message: '--limit does not accept "many"',
      hint: '--limit takes a whole number from 1 to 1000.',
    })
    expect(await said('list', '--status', 'gone')).toMatchObject({ hint: expect.stringMatching(/^expected one of: requested, held/) })
    expect(await said('agents', 'add', 'a.b')).toMatchObject({
      message: '<name> does not accept "a.b"',
      hint: expect.stringContaining('1 to 64'),
    })
    expect(await said('request', '--to', 'a', '--objective', 'o', '--timeout', '25h')).toMatchObject({
      message: '--timeout does not accept "25h"',
      hint: '--timeout takes at most 24 h.',
    })
  })

  it('about a name suggests one', async () => {
    expect(await said('shwo')).toMatchObject({ message: "unknown command 'shwo'", hint: 'Did you mean show?' })
    expect(
      await buildProgram()
        .parseAsync(['agents', 'drop'], { from: 'user' })
        .catch((error: Error) => error),
    ).toMatchObject({ code: 'E042', message: 'agents has no subcommand drop' })
  })
})
