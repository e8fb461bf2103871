import type { Bus } from '@passover/bus'
import { oneLine } from '@passover/core'
import { askPasses, Failure, type PassRef } from '@passover/operator'
import { type AnsweredPass, storedId } from '@passover/schemas'
import { createProblem, HttpProblem } from '../http/problem.js'

/** Returns the only pass with that id. Throws 404 if there is none, and 409 if there are several and `from` and `to` must select one. */
export async function findOnePass(bus: Bus, ref: PassRef, wants: { history?: true; due?: true } = {}): Promise<AnsweredPass> {
  const found = storedId.safeParse(ref.id).success ? await askPasses(bus, ref, wants) : []
  const [pass] = found
  if (found.length > 1) {
    const hint = `name the pass with from and to: ${found
      .slice(0, 5)
      .map(({ key }) => `${key.originator} → ${key.subagent}`)
      .join(', ')}`
    throw new HttpProblem(createProblem(409, { code: 'E042', detail: `several passes have the id ${ref.id}`, hint }))
  }
  if (pass) return pass
  throw new Failure('E041', `pass ${oneLine(ref.id, 64)} does not exist`, { hint: 'GET /api/pass-over/passes lists passes' })
}
