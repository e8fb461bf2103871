import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openBus } from '@passover/bus'
import { HEADER } from '@passover/schemas'
import { WorkError } from '@passover/sdk'
import { publishCancel } from '@passover/sdk/people'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentWorld } from '../support/agents.js'
import { runInProcess } from '../support/in-process.js'
import { until } from '../support/until.js'

/** One of each kind of hidden character, in the sequences that a terminal would act on. */
const HIDDEN = [
  '\u001b]0;owned title\u0007',
  '\u001b]52;c;ZXZpbA==\u0007',
  '\u001b[2K\u001b[1A\u001b[31m\u001b[8m',
  '\u009b31m\u0085\u0090\u009c',
  '\b\u000b\u000c\u007f\u0000',
  '\u202e\u202a\u2066\u2069\u200e\u061c',
  '\u200b\u200c\u2060\ufeff\u00ad\u180e\u034f\u3164',
  '\u2028\u2029',
  '\u{e0041}\u{e007f}x\ufe0f\u{e0100}',
  '\ue000\u{10fffd}\ufff9',
].join(' ')
/** What passes for a line of the program's own where a line feed or a carriage return gets through. */
const FAKE = '✓ FAKE: applied'
const HOSTILE = `begin ${HIDDEN}\r${FAKE}\r\n${FAKE}\n${FAKE} 😀 end`
/** For fields of one line whose characters are restricted otherwise, such as paths and headers. */
const LINE = `b\u202ea\u200b\u001b]0;t\u0007\u009b1m\u2028z`

const RAW = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\u2028\u2029\p{Default_Ignorable_Code_Point}]/gu
const ESCAPE = '\u001b'
/** Styles that the command line may set itself. */
const STYLE = new RegExp(`${ESCAPE}\\[(?:0|1|2|3|4|7|22|23|24|27|3[0-9]|4[0-9]|9[0-7])m`, 'g')

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

  const passover = (...line: string[]) =>
    runInProcess([...line, '--as', 'ann', '--server', world.world.nats.servers[0] ?? '', '--directory', folder], { PASSOVER_DEBUG: '1' })

  /** What of a text must not reach a terminal. */
  function faults(text: string): string[] {
    const raw =
      text
        .replace(STYLE, '')
        .replace(/[\n\t]/g, '')
        .match(RAW) ?? []
    const lines = text
      .replace(STYLE, '')
      .split('\n')
      .filter((line) => line.startsWith('✓ FAKE') || line.startsWith(' ✓ FAKE'))
    return [...new Set(raw.map((one) => `U+${one.codePointAt(0)?.toString(16)}`)), ...lines]
  }

  const id = (name: string) => ({ toString: () => ids[name] ?? '' })
  const COMMANDS: unknown[][] = [
    ['list'],
    ['show', id('done')],
    ['show', id('failed')],
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
      expect({ words: words[0], form, faults: faults(`${stdout}\n${stderr}`) }).toEqual({ words: words[0], form, faults: [] })
      if (form.length > 0 && stdout !== '') expect(() => JSON.parse(stdout)).not.toThrow()
    }
  })

  it('is shown, not dropped', async () => {
    const { stdout } = await passover('show', ids.done ?? '')
    for (const shown of ['␛]0;owned title␇', '<U+202E>', '<U+200B>', '<U+2028>', '<U+E0041>', '<U+009B>', '␍', '😀'])
      expect(stdout).toContain(shown)
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
    expect(faults(`${stdout}\n${stderr}`).filter((fault) => fault.startsWith('U+'))).toEqual([])
  })
})
