import { encode } from '@passover/bus'
import type { FaultPoint } from '@passover/dispatcher'
import { HEADER, type ParentProof, type PassKey } from '@passover/schemas'
import { describe, expect, test } from 'vitest'
import { sequenceOf, World } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

/** Rules 3, 5 and 7 of docs/architecture/invariants.md#rules where the dispatcher keeps them. Each test names the line without which it fails (tried by hand). */

async function proofOf(world: World, key: PassKey): Promise<ParentProof> {
  const journal = await world.state(key, 'open')
  const { return_id } = await world.work(key)
  return { ...key, return_id, proof: journal.valid }
}

/** A dispatcher that stands still between its look and its publish, for one pass. */
function stalled(point: FaultPoint = 'admission:before-publish') {
  let go = (): void => undefined
  const gone = new Promise<void>((resolve) => {
    go = resolve
  })
  const faults = {
    armed: false,
    reached: false,
    go: () => go(),
    async at(here: FaultPoint) {
      if (!faults.armed || here !== point) return
      faults.reached = true
      await gone
    },
  }
  return faults
}

describe('rule 3: a child lives only while its proof names its parent`s last step', () => {
  // Fails with `parent.journal.valid === step.proof` taken for true in cascade (packages/core/src/open-passes/open-pass.ts).
  test.each([
    { what: 'a work step', override: {} },
    { what: 'a held step', override: { hold_before_dispatch: true } },
  ])('$what stored after a fence, with the proof of the attempt before it, is ended at once', async ({ override }) => {
    const faults = stalled()
    await using world = await World.start({ dispatchers: [{}], faults })
    await world.agent('audit')
    await world.agent('scout')
    const parent = await world.ask({ to: 'audit', timeout_ms: 120_000 })
    const proof = await proofOf(world, parent)
    faults.armed = true
    // The dispatcher has looked at the parent, which was open in its first attempt.
    const child = await world.ask({ from: 'audit', to: 'scout', parent: proof, override, timeout_ms: 100_000 })
    await until(() => faults.reached, { what: 'it has looked' })
    sequenceOf(await world.step('fence', parent, { attempt: 2, guard: proof.proof }))
    faults.go()
    const end = await world.end(child)
    expect(end.error).toMatchObject({ code: 'E043', details: { because: 'parent' } })
    expect((await world.journal(parent)).state).toBe('open')
  })

  // Fails with `parent?.journal.state !== 'open'` taken for false in cascade (packages/core/src/open-passes/open-pass.ts).
  test('a work step stored after its parent`s return is ended at once', async () => {
    const faults = stalled()
    await using world = await World.start({ dispatchers: [{}], faults })
    await world.agent('audit')
    await world.agent('scout')
    const parent = await world.ask({ to: 'audit', timeout_ms: 120_000 })
    const proof = await proofOf(world, parent)
    faults.armed = true
    const child = await world.ask({ from: 'audit', to: 'scout', parent: proof, timeout_ms: 100_000 })
    await until(() => faults.reached, { what: 'it has looked' })
    sequenceOf(await world.step('return', parent, { attempt: 1, guard: proof.proof }))
    faults.go()
    expect((await world.end(child)).error).toMatchObject({ code: 'E043' })
  })
})

describe('rule 5: a first step later than the id`s window counts only as "expired"', () => {
  /** Within it another dispatcher starts and admits, on a machine that others use too. */
  const id_window_ms = 3_000
  const windows = (n: number) => new Promise((later) => setTimeout(later, n * id_window_ms))

  // Fails with `step.time - asked > rules.id_window_ms` taken for false in firstStepIsLate (packages/core/src/journal/state-machine.ts).
  test.each([
    { what: 'an id with a time in it', given: false },
    { what: 'an id without time', given: true },
  ])(
    '$what: a dispatcher that slept over the pass`s whole life and its deletion reopens nothing',
    async ({ given }) => {
      const faults = stalled()
      await using world = await World.start({ dispatchers: [] })
      await world.agent('audit')
      // Its clock, which goes behind, stands for a sleep between its last look at the time and the server's storing.
      await world.dispatcher({ id_window_ms, timekeeper: false }, { faults, behind_ms: 10_000 })
      faults.armed = true
      const { key, ...message } = world.request({ id: given ? 'an-order-of-yesterday' : world.id() })
      const requests = [sequenceOf(await world.bus.publish(message))]
      await until(() => faults.reached, { what: 'the dispatcher has looked and sleeps' })
      faults.armed = false
      // Asked again, the pass is admitted, worked on and returned, and in time deleted.
      const keeper = await world.dispatcher({ id_window_ms })
      requests.push(sequenceOf(await world.bus.publish(message)))
      const journal = await world.state(key, 'open')
      const end = sequenceOf(await world.step('return', key, { attempt: 1, guard: journal.last }))
      await windows(2)
      for (const sequence of [...requests, journal.last, end]) await world.bus.journal.deleteMessage(sequence)
      faults.go()
      // It finds nothing there, publishes expecting nothing, and is stored; but it counts for nothing, and is followed by "expired".
      const [work, expired] = await until(
        async () => {
          const found = await world.bus.journal.read(key)
          return found.length === 2 ? found : undefined
        },
        { what: 'it is told that the id expired' },
      )
      expect(work).toMatchObject({ kind: 'work' })
      expect(expired).toMatchObject({ kind: 'return', by: 'passover', code: 'E005' })
      expect(await world.journal(key, id_window_ms)).toMatchObject({ state: 'done', attempt: 0 })
      expect(keeper.stats().open).toBe(0)
    },
    180_000,
  )

  // Fails without `step.code === 'E005'` in isExpiry (packages/core/src/journal/state-machine.ts).
  test('a late first step that says something else does not count', async () => {
    await using world = await World.start({ dispatchers: [] })
    const key = { originator: 'alice', subagent: 'audit', id: world.id(world.bus.now() - 2 * id_window_ms) }
    const first = { subject: world.bus.subjects.return(key, 'passover'), headers: { [HEADER.code]: 'E010' }, data: encode({ v: 1 }) }
    sequenceOf(await world.bus.publish({ ...first, guard: { subject: world.bus.subjects.journal(key), sequence: 0 } }))
    expect((await world.journal(key, id_window_ms)).state).toBe('none')
  })
})

describe('rule 7: who acknowledges a request leaves a begun journal', () => {
  // Fails with `{ ok: true }` as the decision about a delivery that failed, in handle (services/dispatcher/src/intake/consume-requests.ts).
  test('a dispatcher that fails before its publish has acknowledged nothing, and nobody keeps time who could hide it', async () => {
    let failures = 0
    const faults = {
      async at(point: FaultPoint) {
        if (point !== 'admission:before-publish' || failures > 1) return
        failures += 1
        throw new Error('a fault before the publish')
      },
    }
    await using world = await World.start({ dispatchers: [{ timekeeper: false }], faults })
    await world.agent('audit')
    const key = await world.ask()
    await world.state(key, 'open')
    expect(failures).toBe(2)
    await world.untilAcknowledged()
    expect((await world.bus.journal.read(key)).map(({ kind }) => kind)).toEqual(['work'])
  })
})
