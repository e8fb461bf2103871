import { expect, it } from 'vitest'
import { json, openProject, run } from '../../support/fixtures/cli.js'

it('policy explain says who is not registered or may begin nothing, and both limits where both bind', async () => {
  await using project = await openProject()
  const { cwd } = project
  type Explained = { fields: { field: string }[]; registered: boolean; originates?: string }
  const explained = (to: string) => json<Explained>(['policy', 'explain', 'alice', to], { cwd })
  expect(await explained('ghost')).toMatchObject({ code: 0, document: { registered: false } })
  expect((await run(['policy', 'explain', 'alice', 'ghost'], { cwd })).stdout).toContain('ghost is not registered')
  await run(['agents', 'add', 'audit'], { cwd })
  await run(['agents', 'add', 'alice'], { cwd })
  await run(['policy', 'set', 'max_active', '5', '--to', 'audit'], { cwd })
  expect((await run(['policy', 'explain', 'alice', 'audit'], { cwd })).stdout).toMatch(/max_active +5, alice at most 3 +subagent/)
  await run(['policy', 'set', 'max_active', '7', '--pair', 'alice->audit'], { cwd })
  const { document } = await explained('audit')
  expect(document).toMatchObject({ registered: true, originates: 'within_a_pass' })
  expect(document.fields.find(({ field }) => field === 'max_active')).toMatchObject({
    value: 7,
    level: 'pair',
    also: [{ level: 'subagent', value: 5, path: '$.subagents.audit.max_active' }],
  })
  const { stdout } = await run(['policy', 'explain', 'alice', 'audit'], { cwd })
  expect(stdout).toMatch(/max_active +7 and 5 +pair and subagent/)
  expect(stdout).not.toContain('audit is not registered')
  expect(stdout).toContain('alice may originate passes only while it works on one')
})
