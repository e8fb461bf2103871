import { describe, expect, it } from 'vitest'
import { commandTree, completionScript, SHELLS } from './completion.js'
import { buildProgram } from './program.js'

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

  it('quotes what a shell would take apart', () => {
    const odd = { ...tree, commands: [{ name: 'x', description: "it's $(boom) `boom`", options: [], commands: [] }] }
    for (const shell of ['zsh', 'fish'] as const) expect(completionScript(shell, odd)).toContain(`it'\\''s $(boom)`)
  })
})
