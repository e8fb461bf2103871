import { randomUUID } from 'node:crypto'
import { PassOverError } from '@passover/core'
import { passId, sha256, type WorkOutput } from '@passover/schemas'
import { createdPass, createPass } from '@passover/schemas/http'
import type { PassHandle, PassOverOptions } from '@passover/sdk'
import { z } from 'zod'
import { parsePreferWait } from '../http/parse-request.js'
import { createProblem, HttpProblem, problemOf } from '../http/problem.js'
import { type Reply, route } from '../route.js'

/** Milliseconds to wait for an earlier request with the same id: its result, or the error that the id is in use, arrives at once. */
const EARLIER_REQUEST_WAIT_MS = 500

const headers = z.object({
  /** Any text. The same key with the same request names the same pass. */
  'idempotency-key': z.string().min(1).max(200).optional(),
  /** W3C Trace Context that this pass continues; an invalid one is ignored. */
  traceparent: z.string().optional(),
})

export const createPassRoute = route({
  method: 'post',
  path: '/api/pass-over/passes',
  name: 'createPass',
  summary: 'Request a pass as the agent of the token. With "Prefer: wait=30", wait up to 30 seconds for the return',
  scope: 'create',
  access: 'own',
  headers,
  body: createPass,
  answers: { 200: { what: 'The pass has returned', schema: createdPass }, 202: { what: 'The request is stored', schema: createdPass } },
  problems: [404, 409, 413, 422, 502, 503, 504],
  handle({ body, headers: given, caller, inside, request, actor }) {
    const wait_ms = parsePreferWait(request.headers.get('prefer'), inside.options.most_wait_ms)
    const id = body.id ?? idFrom(given['idempotency-key'], caller.name)
    return actor.asAgent(async (agent) => {
      if (agent.awaited >= inside.options.awaited_an_agent) throw awaitsTooMany(agent.awaited, caller.name)
      const handle = agent.passOver({ ...optionsOf(body, id), traceparent: given.traceparent })
      const wait = Math.max(wait_ms, id === undefined ? 0 : EARLIER_REQUEST_WAIT_MS)
      return taken(handle, { originator: caller.name, wait_ms: wait })
    })
  },
})

/** Refuses an agent with too many awaited returns (503). The gateway waits for each return, so that it is acknowledged even if the request ends. */
function awaitsTooMany(awaited: number, name: string): HttpProblem {
  const detail = `this gateway is already waiting for ${awaited} returns for ${name}`
  return new HttpProblem(
    createProblem(503, { code: 'E014', detail, hint: 'try again when some of these passes have ended', retry_after_ms: 1_000 }),
  )
}

/** Derives a pass id from an idempotency key, which may be any text. Includes the owner, so that equal keys of different owners do not collide. */
function idFrom(key: string | undefined, owner: string): string | undefined {
  if (key === undefined) return undefined
  return `idem-${sha256(`${owner}\n${key}`).slice(0, 40)}`
}

/** Gives each request without a session its own one: the gateway's connection is long-lived and must not serve as a session. */
function optionsOf({ id: _, ...body }: z.output<typeof createPass>, id: string | undefined): PassOverOptions {
  const session_id = `http-${id ?? randomUUID()}`
  return { ...body, work_context: { session_id, ...body.work_context }, ...(id === undefined ? {} : { id }) } as PassOverOptions
}

async function taken(handle: PassHandle, { originator, wait_ms }: { originator: string; wait_ms: number }): Promise<Reply> {
  const { id, subagent } = handle
  const names = { id, originator, subagent }
  const result = wait_ms > 0 ? settled(handle) : undefined
  await handle.stored
  const found = result && (await Promise.race([result, after(wait_ms)]))
  const location = `/api/pass-over/passes/${passId.parse(id)}`
  if (!found) return { status: 202, body: { ...names, status: 'requested' }, headers: { location } }
  const withheld = 'error' in found ? overlarge(found.error) : undefined
  if ('error' in found && withheld === undefined) throw withPass(found.error, id)
  const outcome = 'error' in found ? { withheld } : { output: found.output }
  return { status: 200, body: { ...names, status: 'returned', ...outcome }, headers: { location } }
}

/** Returns why a returned output was not loaded, or `undefined` if the error has another cause. */
function overlarge(error: unknown): string | undefined {
  const bytes = error instanceof PassOverError && error.code === 'E021' ? error.context?.output_bytes : undefined
  return typeof bytes === 'number' ? `its output has ${bytes} bytes, which is too large to load here; to see it: passover show` : undefined
}

type Found = { output: WorkOutput } | { error: unknown }

function settled(handle: PassHandle): Promise<Found> {
  return handle.result().then(
    (output): Found => ({ output }),
    (error: unknown): Found => ({ error }),
  )
}

function after(ms: number): Promise<undefined> {
  return new Promise((resolve) => setTimeout(() => resolve(undefined), ms).unref())
}

/** Turns the error that ended a pass into a problem with the id of the pass. */
function withPass(error: unknown, pass_id: string): HttpProblem {
  const { problem, headers: more, bug } = problemOf(error)
  if (bug) throw error
  return new HttpProblem({ ...problem, pass_id }, more)
}
