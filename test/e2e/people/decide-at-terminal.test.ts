import type { InboxItem, PassRow } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { COLUMNS, faultsAtTerminal, HOSTILE } from '../../support/attacks/hostile-text.js'
import { atTerminal, hasTerminal, json, openProject, type Project, run, show, until } from '../../support/fixtures/cli.js'

const CTRL_C = '\u0003'
const QUESTION = 'Approve the start'

describe.skipIf(!hasTerminal())('passover approve at a terminal', () => {
  let project: Project
  let cwd: string
  beforeAll(async () => {
    project = await openProject()
    cwd = project.cwd
    await run(['agents', 'add', 'echo'], { cwd })
  })
  afterAll(() => project?.[Symbol.asyncDispose]())

  /** A pass that is held for a person. */
  async function held(objective = 'may I', reason = 'r'): Promise<string> {
    const what = ['--objective', objective, '--reason', reason, '--hold', '--no-wait']
    const asked = await json<PassRow>(['request', '--from', 'alice', '--to', 'echo', ...what], { cwd })
    const { id } = asked.document
    await until('it waits', async () => (await json<InboxItem[]>(['inbox'], { cwd })).document.some((item) => item.id === id))
    return id
  }
  const decisions = async (id: string) => (await show(id, cwd)).decisions
  const approve = (id: string, more: string[] = [], env: NodeJS.ProcessEnv = {}) =>
    atTerminal(['approve', id, '--as', 'maria', ...more], cwd, env)

  it('shows what is asked for and asks: n decides nothing, Ctrl-C leaves with 130, y approves', async () => {
    const id = await held()
    await using no = approve(id)
    await no.printed(QUESTION)
    expect(no.stdout).toContain('may I')
    no.child.stdin?.write('n')
    expect((await no.ended).code).toBe(1)
    await using left = approve(id)
    await left.printed(QUESTION)
    left.child.stdin?.write(CTRL_C)
    expect((await left.ended).code).toBe(130)
    expect(await decisions(id)).toEqual([])
    await using yes = approve(id)
    await yes.printed(QUESTION)
    yes.child.stdin?.write('y')
    expect((await yes.ended).code).toBe(0)
    expect(await decisions(id)).toMatchObject([{ item: 'dispatch', verdict: 'approve', person: 'maria' }])
  })

  it('is not answered by what was typed before the question, and suggests no', async () => {
    const id = await held()
    await using asked = approve(id)
    asked.child.stdin?.write('wyy')
    // The terminal echoes it: it was there before the question.
    await asked.printed('wyy')
    expect(asked.stdout).not.toContain(QUESTION)
    await asked.printed(QUESTION)
    asked.child.stdin?.write('\r')
    expect((await asked.ended).code).toBe(1)
    expect(await decisions(id)).toEqual([])
  })

  it('escapes what an agent wrote before it asks', async () => {
    // No argument of a command can contain NUL.
    const text = HOSTILE.replaceAll('\0', '')
    const id = await held(text, text)
    await using asked = atTerminal(['approve', id, '--as', 'maria'], cwd, {}, COLUMNS)
    await asked.printed(QUESTION)
    asked.child.stdin?.write('n')
    const { code, stdout: wrapped } = await asked.ended
    expect(code).toBe(1)
    expect(faultsAtTerminal(wrapped.replaceAll('\r\n', '\n')).filter((fault) => fault.includes('¶'))).toEqual([])
    const stdout = wrapped.replaceAll(/\r\n *│ /g, '')
    for (const shown of ['␛]0;owned title␇', '␛[8m', '<U+202E>', '<U+009B>', '<U+E0041>']) expect(stdout).toContain(shown)
    // The prompt draws with sequences of its own, none of which is one of these.
    for (const raw of ['\u001b]', '\u001b[8m', '\u009b', '\u202e', '\u200b', '\u2028', '\u{e0041}', '\n✓ FAKE'])
      expect(stdout).not.toContain(raw)
  })

  it.each([
    ['--no-input', ['--no-input'], {}, 2],
    ['CI set', [], { CI: 'true' }, 2],
    ['--yes', ['--yes'], {}, 0],
    ['--no-input and --yes', ['--no-input', '--yes'], {}, 0],
  ] as const)('asks nothing with %s, and approves only with --yes', async (_, more, env, exit) => {
    const id = await held()
    await using asked = approve(id, [...more], env)
    const { code, stdout } = await asked.ended
    expect(code).toBe(exit)
    expect(stdout).not.toContain(QUESTION)
    expect(stdout).toContain('objective: may I')
    expect(await decisions(id)).toMatchObject(exit === 0 ? [{ verdict: 'approve', person: 'maria' }] : [])
  })
})
