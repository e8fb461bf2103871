import { describe, expect, it } from 'vitest'
import { buildProgram } from '../../program.js'
import { type CommandNode, commandTree, completionScript, SHELLS } from './completion-scripts.js'

const tree = commandTree(buildProgram())

describe('completion', () => {
  it('names every command and flag in every shell', () => {
    for (const shell of SHELLS) {
      const script = completionScript(shell, tree)
      for (const { name, options } of tree.commands) {
        expect(script).toContain(name)
        for (const { flags } of options)
          for (const flag of flags) expect(script, `${shell} ${flag}`).toContain(shell === 'fish' ? flag.replace(/^--?/, '') : flag)
      }
    }
  })

  it('offers the values of a flag that has some', () => {
    for (const shell of SHELLS) expect(completionScript(shell, tree)).toMatch(/high.*medium.*low/)
  })

  it('asks for names and ids where an argument or a flag is one, as passover and as npx passover', () => {
    const asks = {
      bash: /'show'\) words='.*' values=ids ;;/,
      zsh: /'show'\) candidates=\(.*\) values=ids ;;/,
      fish: /from show" -f -a '\(passover completion ids /,
    }
    for (const shell of SHELLS) {
      const script = completionScript(shell, tree)
      expect(script).toMatch(asks[shell])
      expect(script).toMatch(shell === 'fish' ? /-l to -x -a '\(npx --no passover completion agents / : /--to\) .*_passover_values agents/)
      expect(script).toContain('npx --no')
    }
  })

  it('quotes what a shell would take apart', () => {
    const odd: CommandNode = { ...tree, commands: [{ name: 'x', description: "it's $(boom) `boom`", options: [], commands: [] }] }
    for (const shell of ['zsh', 'fish'] as const) expect(completionScript(shell, odd)).toContain(`it'\\''s $(boom)`)
  })
})
