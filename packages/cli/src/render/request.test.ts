import { createHash } from 'node:crypto'
import picocolors from 'picocolors'
import { describe, expect, it } from 'vitest'
import { faultsAtTerminal, HOSTILE, LINE } from '../../../../test/support/attacks/hostile-text.js'
import type { RequestContent, RequestPart } from '../stored-messages/request-content.js'
import { wrap } from '../terminal/wrap.js'
import { renderRequest } from './request.js'

const colors = picocolors.createColors(false)

function part(name: string, value: unknown): RequestPart {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return { name, size: Buffer.byteLength(text), sha256: createHash('sha256').update(text).digest('hex'), text }
}

const request = { id: 'held-pass-1', originating_agent_id: 'alice', subagent_id: 'audit', reason: 'review', return_required: true }
const context = { session_id: 's', directory: '/', files: [{ path: 'a.txt' }], objective: 'look', background: 'one\ntwo', user: { x: [] } }
const content = (...parts: RequestPart[]): RequestContent => ({ digest: 'd'.repeat(64), request, parts })

describe('renderRequest', () => {
  it('shows every field, message, tool result and file, the objective first', () => {
    const messages = [{ role: 'user', parts: [{ type: 'text', text: 'secretly\ndelete' }] }]
    const text = renderRequest(
      content(
        part('file:a.txt', 'line 1\nline 2\n'),
        part('tool_results', [{ output: 'of a tool' }]),
        part('messages', messages),
        part('context', context),
      ),
      { colors },
    )
    expect(text.match(/^\S.*(?= \()|^\S+$/gm)).toEqual(['request', 'context', 'messages', 'tool_results', 'file a.txt'])
    expect(text).toContain('  │ reason: review')
    expect(text).toContain('  │ objective: look\n  │ background:\n  │   one\n  │   two\n  │ session_id: s')
    expect(text).toContain('  │ user:\n  │   x: []')
    expect(text).toContain('  │       text:\n  │         secretly\n  │         delete')
    expect(text).toContain('  │   output: of a tool')
    expect(text).toContain('  │ line 1\n  │ line 2\n')
    expect(text).not.toContain('not shown')
  })

  it('shows hidden characters, and no line that passes for one of the program, wherever an agent wrote them', () => {
    const everywhere = { objective: HOSTILE, [HOSTILE]: [HOSTILE, { [LINE]: HOSTILE }] }
    const parts = [part('context', everywhere), part('messages', HOSTILE), part(`file:${LINE}`, HOSTILE), part(HOSTILE, 'x')]
    const failed = { name: 'tool_results', size: 1, sha256: 'x', not_loaded: HOSTILE }
    const text = renderRequest({ ...content(...parts, failed), request: { ...request, reason: HOSTILE } }, { colors })
    expect(faultsAtTerminal(wrap(text, 80))).toEqual([])
    expect(text).toContain('<U+202E>')
  })

  it('says exactly what is left out above its maximum, part by part', () => {
    const files = Array.from({ length: 300 }, (_, n) => part(`file:f${n}`, 'y'.repeat(10)))
    const parts = [part('context', { objective: 'x'.repeat(2_000) }), part('messages', 'm'.repeat(50)), ...files]
    const whole = renderRequest(content(...parts), { colors })
    expect(whole).not.toContain('not shown')
    const text = renderRequest(content(...parts), { colors, most: 1_000 })
    const shown = text.match(/x{10,}/)?.[0].length ?? 0
    expect(text).toContain(`⚠ not shown: the last ${2_000 - shown} characters`)
    expect(text).toMatch(/messages \(50 bytes, sha256 [0-9a-f]{64}\)\n {2}⚠ not shown: 50 characters/)
    expect(text).toContain('file f198 (10 bytes')
    expect(text).not.toContain('file f199 (')
    expect(text).toContain(`⚠ Not shown of this request: ${2_000 - shown + 50 + 3_000} characters, the names of 101 parts`)
  })

  it('says which parts were not loaded or are not text', () => {
    const facts = { size: 2_048, sha256: 'ab' }
    const text = renderRequest(
      content({ name: 'messages', ...facts, not_loaded: 'part messages is missing' }, { name: 'file:b', ...facts, data: Buffer.of(255) }),
      { colors },
    )
    expect(text).toContain('messages (2 KiB, sha256 ab)\n  ⚠ not shown: part messages is missing')
    expect(text).toContain('file b (2 KiB, sha256 ab)\n  ⚠ not shown: it is not UTF-8 text')
    expect(text).toContain('⚠ Not shown of this request: the content of 2 parts')
  })

  it('shows base64 decoded only if it is base64 of a text, and deeply nested or invalid JSON as stored', () => {
    const base64 = Buffer.from('run me').toString('base64')
    const files = ['real', 'fake'].map((path) => ({ path, encoding: 'base64' }))
    const deep = '['.repeat(5_000) + ']'.repeat(5_000)
    const text = renderRequest(
      content(
        part('context', { objective: 'x', files }),
        part('file:real', base64),
        part('file:fake', 'run this!'),
        part('messages', deep),
        part('tool_results', '{'),
      ),
      { colors },
    )
    expect(text).toContain('  │ (base64 of this utf8 text)\n  │ run me')
    expect(text).toContain('  │ run this!')
    expect(text).toContain(`  │ ${deep}`)
    expect(text).toMatch(/tool_results .*\n {2}│ \{/)
  })
})
