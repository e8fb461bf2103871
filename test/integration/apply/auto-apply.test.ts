import { readFile, writeFile } from 'node:fs/promises'
import { openBus } from '@passover/bus'
import type { AnsweredPass, WorkArtifact } from '@passover/schemas'
import type { Agent } from '@passover/sdk'
import { createAgent } from '@passover/sdk/internal'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { clockOf, random } from '../../support/dispatcher/dispatcher.js'
import { change, decideApply, Place } from '../../support/fixtures/apply.js'
import { until } from '../../support/processes/until.js'

/** What must all hold (docs/architecture/protocol.md#release-and-apply); the last two are said by what is absent. */
const CONDITIONS = ['request', 'policy', 'output', 'right', 'nothing critical', 'no approval required'] as const
type Condition = (typeof CONDITIONS)[number]
type Combination = Record<Condition, boolean>

const ALL: Combination[] = Array.from({ length: 2 ** CONDITIONS.length }, (_, bits) => {
  const [request, policy, output, right, critical, approval] = CONDITIONS.map((_name, index) => (bits & (1 << index)) !== 0)
  return {
    request: request === true,
    policy: policy === true,
    output: output === true,
    right: right === true,
    'nothing critical': critical === true,
    'no approval required': approval === true,
  }
})

/** A subagent for each of the eight policies. */
const named = (one: Combination) => `fixer-${Number(one.policy)}${Number(one.right)}${Number(one['no approval required'])}`
const pairs = Object.fromEntries(
  ALL.map((one) => [
    `alice->${named(one)}`,
    { auto_apply: one.policy, can_modify_files: one.right, require_user_approval: !one['no approval required'], auto_return: true },
  ]),
)

let world: AgentWorld
let place: Place
let alice: Agent
beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document: { pairs } } }] })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})
beforeEach(async () => {
  place = await Place.make()
  alice = await inDirectory(true)
  return async () => {
    await alice[Symbol.asyncDispose]()
    await place[Symbol.asyncDispose]()
  }
})

async function inDirectory(autoApply: boolean, say?: (line: string) => void): Promise<Agent> {
  const bus = await openBus({ servers: world.world.nats.servers, identity: 'alice', onError: () => undefined })
  return createAgent({ bus, clock: clockOf(bus), random, ...(say && { say }) }, { directory: place.directory, autoApply })
}

/** Passes a change of `file` over, under these conditions. */
async function passed(one: Combination, file: string, agent = alice) {
  const fixer = await world.agent(named(one))
  const finding: WorkArtifact = { type: 'finding', severity: 'error', category: 'x', message: 'bad' }
  const artifacts: WorkArtifact[] = [change(file, 'before', 'after'), ...(one['nothing critical'] ? [] : [finding])]
  await using _worker = await fixer.onPass(() => ({ artifacts, auto_apply_allowed: one.output }))
  const auto = one.request ? { auto_apply_on_success: true } : {}
  const asked = agent.passOver({ subagent: named(one), reason: 'fix', work_context: { objective: 'fix' }, ...auto })
  const key = { originator: 'alice', subagent: named(one), id: asked.id }
  // Where the policy says no, a request that says yes asks for more than it may, and is refused as a whole.
  if (one.request && !one.policy) await expect(asked).rejects.toMatchObject({ code: 'E013', context: { field: 'auto_apply' } })
  return { output: one.request && !one.policy ? undefined : await asked, key }
}

const WHOLE = ALL.at(-1) as Combination

describe('an output is applied by itself', () => {
  it.each(ALL.map((one) => [CONDITIONS.filter((name) => one[name]).join(' ∧ ') || 'nothing', one] as const))('%s', async (_, one) => {
    await writeFile(place.in('f'), 'before')
    const { output, key } = await passed(one, 'f')
    const applies = CONDITIONS.every((name) => one[name])
    expect(await readFile(place.in('f'), 'utf8')).toBe(applies ? 'after' : 'before')
    expect(output?.metadata.applied ?? false).toBe(applies)
    const { bus } = world.world
    const event = await bus.journal.last(bus.subjects.event(key, 'applied', 'alice'))
    expect(event !== undefined).toBe(applies)
    if (applies) expect(output?.metadata).toMatchObject({ applied_by: 'alice', applied_at: expect.any(Number) })
  })

  it('is reported, and an output that changes a file which runs by itself is left to a person as a whole', async () => {
    const reports: string[] = []
    await using reporting = await inDirectory(true, (line) => void reports.push(line))
    for (const name of ['f', 'package.json']) await writeFile(place.in(name), 'before')
    const { key } = await passed(WHOLE, 'f', reporting)
    expect(reports).toEqual([`${key.id} of ${key.subagent} was applied automatically in ${place.directory}: f`])
    reports.length = 0
    const { output, key: left } = await passed(WHOLE, './Package.JSON', reporting)
    expect(output?.metadata.applied).toBe(false)
    expect(await readFile(place.in('package.json'), 'utf8')).toBe('before')
    expect(reports).toEqual([
      expect.stringMatching(new RegExp(`^${left.id} .*not applied automatically: .*package manager.*passover apply ${left.id}$`)),
    ])
  })

  it('not in a directory that nobody named for it', async () => {
    await writeFile(place.in('f'), 'before')
    await using other = await inDirectory(false)
    expect((await passed(WHOLE, 'f', other)).output?.metadata.applied).toBe(false)
    expect(await readFile(place.in('f'), 'utf8')).toBe('before')
  })

  it('not over a file that was changed since; it is delivered all the same', async () => {
    await writeFile(place.in('f'), 'by somebody')
    expect((await passed(WHOLE, 'f')).output?.metadata.applied).toBe(false)
    expect(await readFile(place.in('f'), 'utf8')).toBe('by somebody')
  })

  it('once: heard again it stays as it was made since, an undo included', async () => {
    await writeFile(place.in('f'), 'before')
    const { output, key } = await passed(WHOLE, 'f')
    expect(output?.metadata.applied).toBe(true)
    await alice.undo(key.id)
    const { bus } = world.world
    const undone = async () => ((await bus.ask({ op: 'pass', ...key })) as { passes?: AnsweredPass[] }).passes?.[0]?.record?.application
    await until(
      async () => Object.values(((await undone()) as { modifications?: object } | undefined)?.modifications ?? {})[0] === 'undone',
      { what: 'the record says undone' },
    )
    await alice.handle(key.id, key.subagent)
    expect(await readFile(place.in('f'), 'utf8')).toBe('before')
  })

  it('not against a decision that stands', async () => {
    await writeFile(place.in('f'), 'before')
    await using other = await inDirectory(false)
    const { output, key } = await passed(WHOLE, 'f', other)
    if (!output) throw new Error('no output')
    await decideApply(world.world.bus, output, { verdict: 'deny' })
    await expect(other.apply(output)).rejects.toMatchObject({ code: 'E013', context: { approval: 'denied' } })
    expect((await alice.handle(key.id, key.subagent)).metadata.applied).toBe(false)
    expect(await readFile(place.in('f'), 'utf8')).toBe('before')
  })
})
