import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { openBus } from '@passover/bus'
import { publishCancel } from '@passover/operator'
import { HEADER } from '@passover/schemas'
import { WorkError } from '@passover/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { shapeFault } from '../../../packages/cli/src/render/json-schemas.js'
import { COLUMNS, faults, faultsAtTerminal, HOSTILE, LINE, RAW } from '../../support/attacks/hostile-text.js'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { runInProcess } from '../../support/processes/in-process.js'
import { until } from '../../support/processes/until.js'

describe('text that agents set', () => {
  let world: AgentWorld
  let folder: string
  const ids: Record<string, string> = {}

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'passover-hostile-'))
    world = await AgentWorld.start({ audit: { open: true } })
    const { world: made } = world
    await made.agent('alice', { originates: 'always', description: HOSTILE, skills: [LINE] })
    await made.agent('evil', {
      description: HOSTILE,
      skills: [LINE],
      defaults: { output_schema: { title: HOSTILE, type: 'object' } } as object,
    })
    await made.agent('good', { description: HOSTILE })
    await made.agent('crash', { description: HOSTILE })
    await (await world.agent('good')).onPass((pass) => {
      pass.progress(HOSTILE)
      return {
        output: HOSTILE,
        completion_reason: HOSTILE,
        summary: { generated_summary: HOSTILE, findings: [HOSTILE], recommendations: [HOSTILE], decision_reason: HOSTILE },
        artifacts: [
          {
            type: 'file_modification',
            path: `src/${LINE}.ts`,
            old_content: HOSTILE,
            new_content: `${HOSTILE}!`,
            reason: HOSTILE,
            confidence: 'high',
          },
          {
            type: 'file_modification',
            path: 'made.ts',
            operation: 'create',
            old_content: '',
            new_content: HOSTILE,
            reason: HOSTILE,
            confidence: 'low',
          },
          {
            type: 'decision',
            id: HOSTILE.slice(0, 60),
            question: HOSTILE,
            answer: 'yes',
            reasoning: HOSTILE,
            alternatives_considered: [HOSTILE],
          },
          { type: 'message', role: 'assistant', content: HOSTILE, visibility: 'user_visible' },
          { type: 'message', role: 'internal', content: HOSTILE, visibility: 'originator_only' },
          {
            type: 'finding',
            severity: 'error',
            category: LINE,
            message: HOSTILE,
            location: { path: `src/${LINE}.ts`, line: 1 },
            suggested_fix: HOSTILE,
          },
          { type: 'tool_result', tool_name: LINE, call_id: LINE, input: { [LINE]: HOSTILE }, output: HOSTILE, status: 'error' },
        ],
      }
    })
    await (await world.agent('crash')).onPass(
      () => {
        throw new WorkError('E011', HOSTILE, {
          stderr: HOSTILE,
          stack: HOSTILE,
          mend: HOSTILE,
          policy_name: HOSTILE,
          policy_version: 1,
          policy_path: HOSTILE,
        })
      },
      { log: () => undefined },
    )
    const alice = await world.agent('alice')
    const context = {
      objective: HOSTILE,
      background: HOSTILE,
      directory: `/p/${LINE}`,
      session_id: `s ${LINE}`,
      files: [{ path: `src/${LINE}.ts`, content: HOSTILE }],
    }
    const ask = (subagent: string, more: object = {}) =>
      alice.passOver({ subagent, reason: HOSTILE, user_id: LINE, work_context: context as never, ...more })
    const done = ask('good')
    ids.done = done.id
    done.result().catch(() => undefined)
    await made.end({ originator: 'alice', subagent: 'good', id: done.id })
    const failed = ask('crash')
    ids.failed = failed.id
    failed.result().catch(() => undefined)
    await made.end({ originator: 'alice', subagent: 'crash', id: failed.id })
    const held = ask('good', { override: { hold_before_dispatch: true } })
    ids.held = held.id
    held.result().catch(() => undefined)
    const cancelled = ask('evil', { timeout_ms: 60_000 })
    ids.cancelled = cancelled.id
    cancelled.result().catch(() => undefined)
    await made.state({ originator: 'alice', subagent: 'evil', id: cancelled.id }, 'open')
    await using ann = await openBus({ servers: made.nats.servers, identity: 'ann', onError: () => undefined })
    await publishCancel(ann, { key: { originator: 'alice', subagent: 'evil', id: cancelled.id } }, HOSTILE)
    await made.end({ originator: 'alice', subagent: 'evil', id: cancelled.id })
    const bad = await made.send(new TextEncoder().encode(HOSTILE), { headers: { [HEADER.id]: LINE, [HEADER.session]: LINE } })
    ids.letter = bad.id
    await made.end(bad)
    const listed = async () => ((await passover('list')).stdout.includes(ids.letter ?? '') ? true : undefined)
    await until(listed, { what: 'all passes are listed' })
    await until(async () => ((await passover('inbox')).stdout.includes(ids.held ?? '') ? true : undefined), { what: 'a pass is held' })
  }, 120_000)

  afterAll(async () => {
    await world?.[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true, force: true })
  })

  const options = () => ['--as', 'ann', '--server', world.world.nats.servers[0] ?? '', '--directory', folder]
  const passover = (...line: string[]) => runInProcess([...line, ...options()], { PASSOVER_DEBUG: '1' }, undefined, COLUMNS)

  const id = (name: string) => ({ toString: () => ids[name] ?? '' })
  const COMMANDS: unknown[][] = [
    ['list'],
    ['show', id('done')],
    ['show', id('failed')],
    ['logs', id('failed')],
    ['logs', id('letter')],
    ['top', '--once'],
    ['retry', id('failed')],
    ['show', id('held')],
    ['show', id('cancelled')],
    ['show', id('letter')],
    ['watch', '--all', '--count', '8'],
    ['watch', '--all', '--notifications', '--count', '2'],
    ['inbox'],
    ['approve', id('held'), '--item', 'apply', '--yes'],
    ['apply', id('done'), '--dry-run'],
    ['apply', id('done')],
    ['undo', id('done')],
    ['cancel', id('done')],
    ['dlq', 'list'],
    ['dlq', 'show', id('letter')],
    ['dlq', 'show', id('failed')],
    ['dlq', 'requeue', id('letter'), '--yes'],
    ['dlq', 'drop', '--all', '--dry-run'],
    ['audit', 'query', '--all'],
    ['audit', 'stats'],
    ['audit', 'tail', '--count', '0'],
    ['audit', 'hold', 'add', '--session', `s ${LINE}`, '--reason', HOSTILE],
    ['audit', 'hold', 'list'],
    ['audit', 'erase', '--session', `s ${LINE}`, '--reason', HOSTILE, '--yes'],
    ['audit', 'erase'],
    ['audit', 'export', '--csv', '--out', 'exported'],
    ['verify'],
    ['evidence', id('done'), '--out', 'evidence.json'],
    ['evidence', 'verify', 'evidence.json'],
    ['replay', id('done'), id('failed')],
    ['replay', '--session', `s ${LINE}`],
    ['agents'],
    ['agents', 'show', 'evil'],
    ['agents', 'prompt', 'good'],
    ['policy', 'set', 'timeout_ms', '30s', '--global', '--reason', HOSTILE],
    ['policy', 'disable', 'alice', 'crash', '--reason', HOSTILE],
    ['policy', 'history'],
    ['policy', 'show'],
    ['policy', 'explain', 'alice', 'evil'],
    ['request', '--from', 'alice', '--to', 'crash', '--objective', 'x'],
    ['request', '--from', 'alice', '--to', HOSTILE, '--objective', 'x'],
    ['show', HOSTILE],
    [HOSTILE],
    ['list', `--${HOSTILE}`],
    ['list', '--limit', HOSTILE],
    ['deny', id('held'), '--reason', HOSTILE, '--yes'],
    ['doctor'],
    ['auth', 'list'],
    ['auth', 'add', 'agent', HOSTILE],
    ['auth', 'check', HOSTILE],
    ['auth', 'check', 'evil'],
  ]

  it.each(
    COMMANDS.map((line) => [
      line
        .map((one) => (typeof one === 'string' ? one : 'ID'))
        .join(' ')
        .slice(0, 40)
        .replace(RAW, '?'),
      line,
    ]),
  )('is escaped by %s', async (_, line) => {
    const words = (line as unknown[]).map(String)
    for (const form of [[], ['--json']]) {
      const { stdout, stderr } = await passover(...words, ...form)
      const found = [...(form.length === 0 ? faultsAtTerminal(stdout) : faults(stdout)), ...faults(stderr)]
      expect({ words: words[0], form, faults: found }).toEqual({ words: words[0], form, faults: [] })
      if (form.length > 0 && stdout !== '') expect(shapeFault(words, JSON.parse(stdout))).toBeUndefined()
    }
  })

  it('is escaped in the log of a worker: its reason, the stderr of its command, and the error that it ends with', async () => {
    const says = `const text = Buffer.from('${Buffer.from(HOSTILE).toString('base64')}', 'base64'); process.stderr.write(text); process.exitCode = 1`
    const alice = await world.agent('alice')
    const ended = async () => {
      const asked = alice.passOver({ subagent: 'shouter', reason: HOSTILE, work_context: { objective: HOSTILE } })
      await asked.result().catch(() => undefined)
    }
    await world.world.agent('shouter')
    for (const form of [[], ['--jsonl']]) {
      const work = ['work', 'shouter', ...options(), ...form, '--', process.execPath, '-e', says]
      const { code, stdout, stderr } = await runInProcess(work, {}, async (written) => {
        await until(() => written.stderr.includes('Working as shouter'), { what: 'it works' })
        await ended()
        const told = () => written.stderr.includes('← ') || written.stdout.includes('"ended"')
        await until(told, { what: 'the end is logged' })
      })
      expect({ code, faults: faults(`${stdout}\n${stderr}`) }).toEqual({ code: 0, faults: [] })
      if (form.length === 0) for (const shown of ['␛]0;owned title␇', '<U+202E>', '| ', 'E011']) expect(stderr).toContain(shown)
    }
  })

  it('is escaped in the output and the log of a server that an agent sends it to, and in a policy that is refused', async () => {
    const project = join(folder, 'project')
    const file = join(project, '.opencode', 'pass-over.json')
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, JSON.stringify({ pairs: { [HOSTILE]: { enabled: HOSTILE } }, [HOSTILE]: HOSTILE }))
    const up = ['up', '--directory', project, '--as', 'ann', '--log', 'debug']
    const refused = await runInProcess(up)
    expect({ code: refused.code, faults: faults(refused.stdout + refused.stderr) }).toEqual({ code: 2, faults: [] })
    expect(refused.stderr).toContain('<U+202E>')
    writeFileSync(file, JSON.stringify({ pairs: { 'alice->evil': { from: 'alice', to: 'evil', enabled: false, reason: HOSTILE } } }))
    const { code, stdout, stderr } = await runInProcess(up, {}, async (written) => {
      await until(() => written.stdout.includes('is up'), { what: 'it is up', deadline_ms: 60_000 })
      const { url, user, password } = JSON.parse(readFileSync(join(project, '.passover', 'server.json'), 'utf8')) as Record<string, string>
      await using evil = await openBus({
        servers: url ?? '',
        identity: 'evil',
        credentials: { user: user ?? '', pass: password ?? '' },
        onError: () => undefined,
      })
      await evil.ask({ name: HOSTILE, description: HOSTILE, [HOSTILE]: HOSTILE }, { service: 'register' }).catch(() => undefined)
      const headers = { [HEADER.id]: LINE, [HEADER.session]: LINE }
      const data = new TextEncoder().encode(HOSTILE)
      const sent = await evil.publish({ subject: evil.subjects.request('alice', 'evil'), data, headers })
      if (sent.kind !== 'stored') throw new Error(sent.kind)
      const key = { originator: 'evil', subagent: 'alice', id: evil.subjects.badId(sent.sequence) }
      await until(async () => (await evil.journal.read(key)).length > 0, { what: 'it is refused' })
      expect(faults(readFileSync(join(project, '.passover', 'passover.log'), 'utf8'))).toEqual([])
    })
    expect({ code, faults: faults(`${stdout}\n${stderr}`) }).toEqual({ code: 0, faults: [] })
  })

  it('is shown, not dropped', async () => {
    const { stdout } = await passover('show', ids.done ?? '')
    const unwrapped = stdout.replaceAll(/\n *│ /g, '')
    for (const shown of ['␛]0;owned title␇', '<U+202E>', '<U+200B>', '<U+2028>', '<U+2800>', '<U+E0041>', '<U+009B>', '␍', '😀'])
      expect(unwrapped).toContain(shown)
    // In one line spaces are collapsed; in the lines of an output they are shown.
    expect(unwrapped).toContain('<U+2003><U+2003><U+00A0><U+3000><U+1680>')
    expect(stdout).toMatch(/^ {2}reason {5}begin ¶+\n( {6}│ .*\n)+ {2}session /m)
    const { stdout: json } = await passover('show', ids.done ?? '', '--json')
    expect((JSON.parse(json) as { reason: string }).reason).toBe(HOSTILE)
  })

  it('is cut at each limit without half a character', async () => {
    const { world: made } = world
    await made.agent('cutter')
    /** An emoji across the limit. */
    const across = (limit: number) => `${'x'.repeat(limit - 1)}${'😀'.repeat(40)}`
    await (await world.agent('cutter')).onPass(
      (pass) => {
        pass.progress(across(4_096))
        if (pass.objective === 'error') throw new Error(across(8_192))
        return pass.objective === 'summary' ? { output: 'o', summary: across(2_000) } : across(2_000)
      },
      { log: () => undefined },
    )
    const alice = await world.agent('alice')
    for (const objective of ['summary', 'output', 'error']) {
      const asked = alice.passOver({ subagent: 'cutter', reason: 'r', work_context: { objective } })
      await asked.result().catch(() => undefined)
      await until(async () => ((await passover('list', '--status', 'processed')).stdout.includes(asked.id) ? true : undefined), {
        what: 'it is recorded',
      })
      const shown =
        (await passover('show', asked.id, '--json')).stdout + (await passover('audit', 'query', '--to', 'cutter', '--json')).stdout
      expect(shown).toContain('xxxx')
      expect(shown).not.toMatch(/\ufffd|\\ud83d(?!\\ude00)/)
    }
  })

  it('in a result is escaped', async () => {
    const { stdout, stderr } = await passover(
      'request',
      '--from',
      'alice',
      '--to',
      'good',
      '--objective',
      HOSTILE,
      '--reason',
      HOSTILE,
      '--auto-return',
    )
    // The output's own text is the result: its lines are its own.
    expect([...faultsAtTerminal(stdout), ...faults(stderr)].filter((fault) => !fault.includes('FAKE'))).toEqual([])
  })
})
