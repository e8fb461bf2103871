import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ShownFile } from '@passover/schemas'
import type { Applied } from '@passover/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SpanReceiver } from '../../support/assertions/spans.js'
import { change } from '../../support/fixtures/apply.js'
import { atTerminal, cli, hasTerminal, json, openProject, type Project, run, type Spawned, show } from '../../support/fixtures/cli.js'

/** Proposes what its objective says. */
const FIXER = `let text = ''; process.stdin.on('data', (chunk) => (text += chunk)).on('end', () => {
  const { artifacts, ...more } = JSON.parse(JSON.parse(text).work_context.objective)
  console.log(JSON.stringify({ status: 'completed', artifacts, ...more }))
})`

let project: Project
let fixer: Spawned
let receiver: SpanReceiver
beforeAll(async () => {
  receiver = await SpanReceiver.start()
  project = await openProject([], receiver.env)
  // Commands in its folders look for the server up to the root of the repository.
  mkdirSync(join(project.cwd, '.git'))
  fixer = cli(['work', 'fixer', '--', 'node', '-e', FIXER], { cwd: project.cwd, env: receiver.env })
  await fixer.printed('Working as fixer', 'stderr')
})
afterAll(async () => {
  await fixer?.[Symbol.asyncDispose]()
  await project?.[Symbol.asyncDispose]()
  await receiver?.[Symbol.asyncDispose]()
})

/** A folder of its own in the project, with these files. */
function folder(files: Record<string, string>): string {
  const cwd = mkdtempSync(join(project.cwd, 'sub-'))
  for (const [name, content] of Object.entries(files)) writeFileSync(join(cwd, name), content)
  return cwd
}

async function proposed(artifacts: object[], more: object = {}): Promise<string> {
  const objective = JSON.stringify({ artifacts, ...more })
  const { document } = await json<{ id?: string; work_id?: string }>(
    ['request', '--from', 'alice', '--to', 'fixer', '--objective', objective],
    { cwd: project.cwd, env: receiver.env },
  )
  const id = document.work_id ?? document.id
  if (!id) throw new Error(`no id in ${JSON.stringify(document)}`)
  return id
}

type Document = Applied & { id: string; modifications: { number: number; verdict: string }[]; files: ShownFile[]; dry_run?: boolean }

describe('passover apply', () => {
  it('shows the diff, decides as the person, applies what was chosen and says so in the record', async () => {
    const cwd = folder({ a: 'one\n', b: 'two\n', c: 'three\n' })
    const id = await proposed([change('a', 'one\n', 'ONE\n'), change('b', 'two\n', 'TWO\n'), change('c', 'three\n', 'THREE\n')])
    const dry = await run(['apply', id, '--dry-run', '--as', 'maria'], { cwd })
    expect(dry).toMatchObject({ code: 0, stdout: expect.stringContaining('-one\n+ONE') })
    expect(dry.stdout).not.toContain('\u001b[')
    expect((await show(id, cwd)).decisions).toEqual([])
    const done = await run(['apply', id, '--only', '1,3', '--yes', '--as', 'maria'], { cwd })
    expect(done).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/✓ a[\s\S]*✓ c[\s\S]*b rejected[\s\S]*approved by maria \(unverified\)/),
    })
    expect(['a', 'b', 'c'].map((name) => readFileSync(join(cwd, name), 'utf8'))).toEqual(['ONE\n', 'two\n', 'THREE\n'])
    const shown = (await show(id, cwd)) as unknown as {
      decisions: object[]
      record: { entry: object; application: { modifications: object } }
    }
    expect(shown.decisions).toMatchObject([{ item: 'apply', person: 'maria', verdict: 'approve' }])
    expect(shown.record.entry).toMatchObject({ applied: true, applied_by: 'maria' })
    expect(Object.values(shown.record.application.modifications)).toEqual(['applied', 'applied'])
    // It stands as decided: nobody takes more afterwards.
    expect(await run(['apply', id, '--only', '2', '--as', 'bob'], { cwd })).toMatchObject({ code: 4 })
  })

  it('stands in the trace of its pass, with all that the commands did before', async () => {
    const cwd = folder({ a: 'one\n' })
    const id = await proposed([change('a', 'one\n', 'ONE\n')])
    expect(await run(['apply', id, '--yes', '--as', 'maria'], { cwd, env: receiver.env })).toMatchObject({ code: 0 })
    const names = ['request', 'decision', 'queue_wait', 'work', 'return', 'delivery', 'apply']
    const spans = await receiver.got(
      id,
      names.map((name) => `${name} fixer`),
    )
    expect(new Set(spans.map(({ trace }) => trace)).size).toBe(1)
    const [request, apply] = ['request fixer', 'apply fixer'].map((name) => spans.find((span) => span.name === name))
    expect(apply).toMatchObject({ parent: request?.id, service: 'passover', attributes: { 'passover.applied_by': 'maria' } })
  })

  it('approves nothing unasked: without a terminal and without --yes it exits 2, says how, and decides and writes nothing', async () => {
    const cwd = folder({ a: 'one\n' })
    const id = await proposed([change('a', 'one\n', 'ONE\n')])
    const asked = await run(['apply', id, '--as', 'maria'], { cwd })
    expect(asked).toMatchObject({ code: 2, stderr: expect.stringContaining(`passover apply ${id} --from alice --to fixer --yes`) })
    expect((await show(id, cwd)).decisions).toEqual([])
    expect(readFileSync(join(cwd, 'a'), 'utf8')).toBe('one\n')
    // To approve without being asked the changes are named by what was shown of them.
    const shown = await run(['approve', id, '--item', 'apply', '--as', 'maria'], { cwd })
    expect(shown).toMatchObject({ code: 2, stderr: expect.stringContaining('-one\n+ONE') })
    const [, digest = ''] = /--item apply --from alice --to fixer --digest ([0-9a-f]{64})/.exec(shown.stderr) ?? []
    const other = await run(['approve', id, '--item', 'apply', '--digest', '0'.repeat(64), '--as', 'maria'], { cwd })
    expect(other).toMatchObject({ code: 4, stderr: expect.stringContaining(digest) })
    expect((await show(id, cwd)).decisions).toEqual([])
    expect(await run(['approve', id, '--item', 'apply', '--digest', digest, '--as', 'maria'], { cwd })).toMatchObject({ code: 0 })
    // A person who approved has been asked already.
    const again = await run(['approve', id, '--item', 'apply', '--as', 'maria'], { cwd })
    expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining('maria (unverified) already decided: approved') })
    expect(await run(['apply', id, '--as', 'maria'], { cwd })).toMatchObject({ code: 0 })
    expect(readFileSync(join(cwd, 'a'), 'utf8')).toBe('ONE\n')
  })

  it('is what `passover request` names where changes were proposed', async () => {
    const objective = JSON.stringify({ artifacts: [change('a', 'one\n', 'ONE\n')] })
    const asked = await run(['request', '--from', 'alice', '--to', 'fixer', '--objective', objective], { cwd: project.cwd })
    expect(asked).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/1 change proposed, nothing written yet: passover apply \S{32} /),
    })
  })

  it('writes nothing over what was changed since: both sides are shown, and it exits 1 undecided', async () => {
    const cwd = folder({ a: 'one\n', b: 'by somebody\n' })
    const id = await proposed([change('a', 'one\n', 'ONE\n'), change('b', 'two\n', 'TWO\n')])
    const { code, stdout } = await run(['apply', id, '--as', 'maria'], { cwd })
    expect(code).toBe(1)
    expect(stdout).toMatch(/conflict: it was changed since[\s\S]*-two\n\+TWO[\s\S]*since[\s\S]*-two\n\+by somebody/)
    expect(readFileSync(join(cwd, 'a'), 'utf8')).toBe('one\n')
    const { document } = await json<Document>(['apply', id, '--as', 'maria'], { cwd })
    expect(document).toMatchObject({
      applied: [],
      modifications: [{ verdict: 'ready' }, { verdict: 'conflict', sides: { current: 'by somebody\n' } }],
    })
    expect((await show(id, cwd)).decisions).toEqual([])
    expect(await run(['apply', id, '--only', '1', '--yes', '--as', 'maria'], { cwd })).toMatchObject({ code: 0 })
  })

  it('prints one document with --json, and applies again what is so already without writing', async () => {
    const cwd = folder({ a: 'one\n' })
    const id = await proposed([change('a', 'one\n', 'ONE\n')])
    const first = await json<Document>(['apply', id, '--yes', '--as', 'maria'], { cwd })
    expect(first).toMatchObject({
      code: 0,
      document: { id, applied: ['a'], rejected: [], conflicts: [], recorded: true, decision: { person: 'maria' } },
    })
    expect(first.document.modifications).toMatchObject([{ number: 1, verdict: 'ready' }])
    expect(first.document.files).toMatchObject([{ path: 'a', numbers: [1], diff: expect.stringContaining('+ONE'), warnings: [] }])
    expect(await json<Document>(['apply', id, '--as', 'bob'], { cwd })).toMatchObject({
      code: 0,
      document: { applied: [], already: ['a'] },
    })
  })

  it('applies exactly what an approval took that somebody gave before, and nothing that was denied', async () => {
    const cwd = folder({ a: 'one\n', b: 'two\n' })
    const id = await proposed([change('a', 'one\n', 'ONE\n'), change('b', 'two\n', 'TWO\n')])
    expect((await run(['show', id], { cwd })).stdout).toMatch(/change 1 {2}a[\s\S]*change 2 {2}b/)
    const approved = await run(['approve', id, '--only', '2', '--yes', '--as', 'maria'], { cwd })
    expect(approved).toMatchObject({ code: 0, stderr: expect.stringContaining('-two\n+TWO') })
    expect(approved.stderr).not.toContain('+ONE')
    const { code, document } = await json<Document>(['apply', id, '--as', 'bob'], { cwd })
    expect({ code, document }).toMatchObject({ code: 0, document: { applied: ['b'], rejected: ['a'], applied_by: 'maria' } })
    // The third is the first once more: it was not approved, and would make what was shown untrue.
    const repeated = await proposed([change('a', 'one\n', 'ONE\n'), change('a', 'ONE\n', 'one\n'), change('a', 'one\n', 'ONE\n')])
    expect(await run(['approve', repeated, '--only', '1,2', '--yes', '--as', 'maria'], { cwd })).toMatchObject({ code: 0 })
    expect(await json(['apply', repeated, '--as', 'bob'], { cwd })).toMatchObject({ code: 0 })
    expect(readFileSync(join(cwd, 'a'), 'utf8')).toBe('one\n')
    const denied = await proposed([change('a', 'one\n', 'ONE\n')])
    expect(await run(['deny', denied, '--as', 'maria', '--reason', 'not so'], { cwd })).toMatchObject({ code: 0 })
    expect(await run(['apply', denied, '--as', 'bob'], { cwd })).toMatchObject({ code: 6, stderr: expect.stringContaining('not so') })
    expect(readFileSync(join(cwd, 'a'), 'utf8')).toBe('one\n')
  })

  it('refuses what leads out, and binary content unless told', async () => {
    const cwd = folder({})
    const outside = mkdtempSync(join(tmpdir(), 'passover-outside-'))
    const leading = await proposed([change('../out', '', 'x', { operation: 'create' }), change(join(outside, 'x'), '', 'x')])
    expect(await run(['apply', leading, '--as', 'maria'], { cwd })).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('leads out of the directory'),
    })
    const binary = await proposed([change('bin', '', 'AAEC', { operation: 'create', encoding: 'base64' })])
    expect(await run(['apply', binary, '--as', 'maria'], { cwd })).toMatchObject({ code: 1, stdout: expect.stringContaining('binary') })
    expect(await run(['apply', binary, '--binary', '--yes', '--as', 'maria'], { cwd })).toMatchObject({ code: 0 })
    expect(readFileSync(join(cwd, 'bin'))).toEqual(Buffer.from([0, 1, 2]))
  })

  it('shows hidden characters, warns of them, and approves neither binary content nor too many changes without being told', async () => {
    const lines = (word: string) => Array.from({ length: 3_000 }, (_, n) => `${word}${n}\n`).join('')
    const cwd = folder({ 'a.js': 'let x = 1\n', big: lines('a'), 'package.json': '{}\n' })
    const evil = 'let x = 1\n// see the docs \rpwned() \u202e\n'
    const id = await proposed([
      change('a.js', Buffer.from('let x = 1\n').toString('base64'), Buffer.from(evil).toString('base64'), { encoding: 'base64' }),
      change('big', lines('a'), lines('b')),
      change('package.json', '{}\n', '{ "scripts": {} }\n', { reason: 'tidy\u200b' }),
    ])
    const kinds = ({ files }: Document) => files.map(({ path, omitted, warnings }) => [path, omitted, warnings.map(({ kind }) => kind)])
    const expected = [
      ['a.js', undefined, ['hidden_characters']],
      ['big', 'too_many_changes', []],
      ['package.json', undefined, ['runs_by_itself', 'hidden_characters']],
    ]
    const { document } = await json<Document>(['apply', id, '--dry-run', '--as', 'maria'], { cwd })
    expect(kinds(document)).toEqual(expected)
    expect(document.files[0]?.diff).toContain('\n+// see the docs \rpwned() \u202e\n')
    for (const command of ['apply', 'approve']) {
      const told = await run([command, id, '--yes', '--as', 'maria'], { cwd })
      expect(told).toMatchObject({ code: 2, stderr: expect.stringMatching(/too many changed lines for a diff: big[\s\S]*--whole/) })
    }
    const inbox = await run(['inbox'], { cwd })
    for (const text of ['hidden characters in the new content: ␍ <U+202E>', 'this file runs automatically', 'too many changes to count'])
      expect(inbox.stdout).toContain(text)
    const shown = await json<{ warnings: object[] }>(['show', id], { cwd })
    expect(shown.document.warnings).toMatchObject([{ path: 'a.js' }, { path: 'package.json' }, { path: 'package.json' }])
    expect((await show(id, cwd)).decisions).toEqual([])
    const approved = await run(['approve', id, '--yes', '--whole', '--as', 'maria'], { cwd })
    expect(approved.code).toBe(0)
    expect(approved.stderr).toContain('+// see the docs ␍pwned() <U+202E>')
    expect(approved.stderr).toContain('\n-a2999\n+b0\n')
    expect(await run(['apply', id, '--as', 'bob'], { cwd })).toMatchObject({ code: 0 })
    expect(readFileSync(join(cwd, 'a.js'), 'utf8')).toBe(evil)
  })

  it('exits 3 for what is not there or proposes nothing, 2 for a number of none, 4 for somebody who takes part', async () => {
    const cwd = folder({ a: 'one\n' })
    expect(await run(['apply', 'nosuchpass', '--as', 'maria'], { cwd })).toMatchObject({ code: 3 })
    expect(await run(['apply', await proposed([]), '--as', 'maria'], { cwd })).toMatchObject({ code: 3 })
    const id = await proposed([change('a', 'one\n', 'ONE\n')])
    expect(await run(['apply', id, '--only', '2', '--as', 'maria'], { cwd })).toMatchObject({ code: 2 })
    expect(await run(['apply', id, '--only', 'x', '--as', 'maria'], { cwd })).toMatchObject({ code: 2 })
    expect(await run(['apply', id, '--as', 'alice'], { cwd })).toMatchObject({ code: 4 })
    expect(readFileSync(join(cwd, 'a'), 'utf8')).toBe('one\n')
  })
})

describe.skipIf(!hasTerminal())('passover apply at a terminal', () => {
  it('shows the diff in colour and asks; no is no: nothing is written, and nothing decided', async () => {
    const cwd = folder({ a: 'one\n' })
    const id = await proposed([change('a', 'one\n', 'ONE\n')])
    await using refused = atTerminal(['apply', id, '--as', 'maria'], cwd)
    expect(await refused.printed('Apply 1 change')).toContain('\u001b[32m+ONE')
    refused.child.stdin?.write('n')
    expect((await refused.ended).code).toBe(1)
    expect(readFileSync(join(cwd, 'a'), 'utf8')).toBe('one\n')
    expect((await show(id, cwd)).decisions).toEqual([])
    await using agreed = atTerminal(['apply', id, '--as', 'maria'], cwd)
    await agreed.printed('Apply 1 change')
    agreed.child.stdin?.write('y')
    expect((await agreed.ended).code).toBe(0)
    expect(readFileSync(join(cwd, 'a'), 'utf8')).toBe('ONE\n')
    // Where the files are so already there is nothing to write, but still something to say yes to.
    const same = await proposed([change('a', 'one\n', 'ONE\n')])
    await using unsaid = atTerminal(['apply', same, '--as', 'maria'], cwd)
    await unsaid.printed('Approve 1 change')
    unsaid.child.stdin?.write('n')
    expect((await unsaid.ended).code).toBe(1)
    expect((await show(same, cwd)).decisions).toEqual([])
    // `approve` shows the changes too before it asks.
    await using approves = atTerminal(['approve', same, '--as', 'maria'], cwd)
    expect(await approves.printed('Approve the application of the changes, 1 of 1 change approved?')).toContain('\u001b[32m+ONE')
    approves.child.stdin?.write('y')
    expect((await approves.ended).code).toBe(0)
    await using told = atTerminal(['undo', id, '--yes', '--as', 'maria'], cwd)
    expect((await told.ended).code).toBe(0)
    expect(readFileSync(join(cwd, 'a'), 'utf8')).toBe('one\n')
  })
})

describe('passover undo', () => {
  it('puts back what was applied in this directory, and the record follows; then there is nothing left to undo', async () => {
    const cwd = folder({ a: 'one\r\n' })
    mkdirSync(join(cwd, 'other'))
    const id = await proposed([change('a', 'one\n', 'ONE\n'), change('new', '', 'x', { operation: 'create' })])
    expect(await run(['apply', id, '--yes', '--as', 'maria'], { cwd })).toMatchObject({ code: 0 })
    expect(readFileSync(join(cwd, 'a'), 'utf8')).toBe('ONE\r\n')
    expect(await run(['undo', id, '--as', 'maria'], { cwd: join(cwd, 'other') })).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('run undo in the directory where the changes were applied'),
    })
    writeFileSync(join(cwd, 'new'), 'mine')
    expect(await run(['undo', id, '--as', 'maria'], { cwd })).toMatchObject({ code: 1, stdout: expect.stringContaining('changed since') })
    writeFileSync(join(cwd, 'new'), 'x')
    expect(await json(['undo', id, '--dry-run', '--as', 'maria'], { cwd })).toMatchObject({
      code: 0,
      document: { would_undo: ['a', 'new'] },
    })
    expect(await json(['undo', id.slice(0, 20), '--as', 'bob'], { cwd })).toMatchObject({
      code: 0,
      document: { id, undone: ['a', 'new'], conflicts: [] },
    })
    expect(readFileSync(join(cwd, 'a'), 'utf8')).toBe('one\r\n')
    const shown = (await show(id, cwd)) as unknown as {
      record: { entry: { applied: boolean } }
      timeline: { kind: string; detail?: string }[]
    }
    expect(shown.record.entry.applied).toBe(false)
    expect(shown.timeline.at(-1)).toMatchObject({ kind: 'applied', detail: '2 undone' })
    // A saved archive tells the same as the installation.
    await run(['verify', '--save', 'saved'], { cwd })
    const archived = await json<{ kind: string; detail?: string }[]>(['replay', id, '--archive', 'saved'], { cwd })
    expect(archived.document.filter(({ kind }) => kind === 'applied').map(({ detail }) => detail)).toEqual(['2 applied', '2 undone'])
    const again = await run(['undo', id, '--as', 'maria'], { cwd })
    expect(again).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/was already undone by bob \(unverified\) (.* ago|now): nothing to restore/),
    })
    expect((await json(['undo', id, '--dry-run'], { cwd })).document).toMatchObject({ id, undone: [], undone_by: 'bob' })
  })
})
