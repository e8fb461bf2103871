import { Command } from 'commander'
import { expect, it } from 'vitest'
import { optionsOf } from './context.js'

/** Options of `above below`, parsed from these words. */
function parse(...words: string[]): Record<string, unknown> {
  let found: Record<string, unknown> = {}
  const below = new Command('below')
    .option('--file <path>')
    .option('--most <n>', 'so many', '5')
    .option('--own')
    .action((_options: unknown, command: Command) => {
      found = optionsOf(command)
    })
  const above = new Command('above').option('--file <path>').option('--most <n>').option('--other').addCommand(below)
  new Command().addCommand(above).parse(['above', ...words], { from: 'user' })
  return found
}

it('an option that the command above has too is the one’s that was named last', () => {
  expect(parse('below', '--file', 'x', '--own')).toEqual({ file: 'x', most: '5', own: true })
  expect(parse('below')).toEqual({ most: '5' })
  expect(parse('below', '--most', '7')).toEqual({ most: '7' })
  expect(parse('--file', 'y', '--other', 'below')).toEqual({ file: 'y', most: '5' })
})
