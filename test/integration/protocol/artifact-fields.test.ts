import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { readResult } from '@passover/operator'
import {
  decisionArtifact,
  fileModificationArtifact,
  findingArtifact,
  inboxAnswer,
  messageArtifact,
  passAnswer,
  toolResultArtifact,
  type WorkArtifact,
  type WorkOutput,
} from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { artifacts as PUT } from '../../support/builders/examples.js'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { decideApply, outputWith, Place } from '../../support/fixtures/apply.js'
import { until } from '../../support/processes/until.js'

/** A row a field of the five artifacts, each filled: it comes to the originator and to people as it was put; besides what it does. */

const CHANGE = {
  path: 'src/sum.ts',
  old_content: 'AAE=',
  new_content: 'AAI=',
  reason: 'sum subtracted',
  confidence: 'medium',
  encoding: 'base64',
}
const GIVEN = PUT.map((one) => (one.type === 'file_modification' ? { ...one, ...CHANGE } : one)) as WorkArtifact[]
const SHAPES = { fileModificationArtifact, decisionArtifact, messageArtifact, findingArtifact, toolResultArtifact }

let world: AgentWorld
let place: Place
let got: WorkOutput
let told: WorkArtifact[]
let waiting: Record<string, unknown> | undefined
let returned: { findings?: unknown; modifications?: Record<string, unknown>[] } | undefined

beforeAll(async () => {
  world = await AgentWorld.start()
  place = await Place.make()
  const { bus } = world.world
  const { alice, output, key } = await outputWith(world, GIVEN as never, { override: { auto_return: true } })
  got = structuredClone(output)
  waiting = await until(
    async () => {
      const answer = inboxAnswer.safeParse(await bus.ask({ op: 'inbox' }))
      return answer.success && answer.data.ok ? answer.data.items.find(({ id }) => id === key.id) : undefined
    },
    { what: 'its change waits' },
  )
  returned = waiting?.returned as typeof returned
  const answer = passAnswer.parse(await bus.ask({ op: 'pass', ...key }))
  const result = answer.ok && answer.passes[0] ? await readResult(bus, answer.passes[0]) : undefined
  told = ((result && 'output' in result ? result.output.artifacts : []) ?? []) as WorkArtifact[]
  await decideApply(bus, output)
  await mkdir(place.in('src'))
  await writeFile(place.in('src/sum.ts'), Buffer.from([0, 1]))
  await alice.apply(output, { directory: place.directory, binary: true })
})
afterAll(async () => {
  await place?.[Symbol.asyncDispose]()
  await world?.[Symbol.asyncDispose]()
})

const of = (all: readonly WorkArtifact[], type: string) => all.find((one) => one.type === type) as Record<string, unknown> | undefined

describe.each(Object.entries(SHAPES))('%s', (_, shape) => {
  const type = shape.shape.type.value
  const put = of(GIVEN, type) ?? {}

  it('has every field filled', () => {
    expect(Object.keys(put).sort()).toEqual(Object.keys(shape.shape).sort())
  })

  it.each(Object.keys(shape.shape))('%s', (field) => {
    expect([of(got.artifacts, type)?.[field], of(told, type)?.[field]]).toEqual([put[field], put[field]])
  })
})

describe('what they do', () => {
  it('a change is shown with path, operation, reason and confidence where it waits, and written as its encoding says', async () => {
    const { path, reason, confidence } = CHANGE
    expect(returned?.modifications).toMatchObject([{ number: 1, path, operation: 'modify', reason, confidence }])
    expect(await readFile(place.in(path))).toEqual(Buffer.from([0, 2]))
  })

  it('a finding is shown with severity, message and place, and counted', () => {
    expect(returned?.findings).toMatchObject({
      error: 1,
      shown: [{ severity: 'error', message: 'sum subtracts', path: 'src/sum.ts', line: 1 }],
    })
    expect(got.summary).toMatchObject({ findings: ['sum subtracts'], issues_found: 1, files_modified: 1 })
  })
})
