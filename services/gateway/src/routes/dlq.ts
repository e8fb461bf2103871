import type { Bus } from '@passover/bus'
import { oneLine } from '@passover/core'
import { dropDeadLetter, Failure, findDeadLetter, listDeadLetters, type ResolutionResult, requeueDeadLetter } from '@passover/operator'
import { storedId } from '@passover/schemas'
import {
  deadLettersPage,
  deadLettersParameters,
  idPath,
  partiesParameters,
  type ShownLetter,
  settledLetter,
  settleLetter,
  shownLetter,
} from '@passover/schemas/http'
import { withMembers } from '../auth/access.js'
import { OutputBudget } from '../http/output-budget.js'
import { createProblem, HttpProblem } from '../http/problem.js'
import { type Reply, route } from '../route.js'

export const listDeadLettersRoute = route({
  method: 'get',
  path: '/api/pass-over/dlq',
  name: 'listDeadLetters',
  summary: 'List dead letters, newest first',
  scope: 'read',
  access: 'own',
  query: deadLettersParameters,
  answers: { 200: { what: 'A page of dead letters; use its `next` as `before` to get the following page', schema: deadLettersPage } },
  async handle({ query: { from, to, ...filter }, actor }) {
    const wanted = { ...filter, ...(from ? { originator: from } : {}), ...(to ? { subagent: to } : {}) }
    const { letters, next } = await actor.as((bus) => listDeadLetters(bus, wanted))
    return { status: 200, body: { letters, next } }
  },
})

interface Ref {
  id: string
  from?: string | undefined
  to?: string | undefined
}

/** Accepts whole ids only, so that a decision cannot hit the wrong dead letter. */
async function letterOf(bus: Bus, ref: Ref) {
  if (!storedId.safeParse(ref.id).success) throw new Failure('E041', `dead letter ${oneLine(ref.id, 64)} does not exist`)
  const detail = await findDeadLetter(bus, ref)
  if (detail.letter.id !== ref.id) throw new Failure('E041', `dead letter ${ref.id} does not exist`, { hint: 'use the whole id' })
  return detail
}

export const getDeadLetter = route({
  method: 'get',
  path: '/api/pass-over/dlq/{id}',
  name: 'showDeadLetter',
  summary: 'Get one dead letter: cause, attempts and stored bytes',
  scope: 'read',
  access: 'own',
  params: idPath,
  query: partiesParameters,
  answers: { 200: { what: 'The dead letter', schema: shownLetter } },
  problems: [404],
  async handle({ params, query, actor }) {
    const { letter, error, data } = await actor.as((bus) => letterOf(bus, { id: params.id, from: query.from, to: query.to }))
    return { status: 200, body: { letter, error, ...(data ? bytesOf(data) : {}) } }
  },
})

function bytesOf(data: Uint8Array): Pick<ShownLetter, 'data_base64' | 'text'> {
  const data_base64 = Buffer.from(data).toString('base64')
  try {
    return { data_base64, text: new TextDecoder('utf-8', { fatal: true }).decode(data) }
  } catch {
    return { data_base64 }
  }
}

export const requeueDeadLetterRoute = route({
  method: 'post',
  path: '/api/pass-over/dlq/{id}/requeue',
  name: 'requeueDeadLetter',
  summary:
    'Request the work again as its originator, as a new pass that refers to the dead letter. Repeated requests return the same new pass',
  scope: 'admin',
  access: 'people',
  params: idPath,
  body: settleLetter,
  answers: { 200: { what: 'Requeued, by this request or earlier', schema: settledLetter } },
  problems: [404, 409, 422],
  handle({ params, body, caller, actor, inside }) {
    const connectAs = async (name: string) => leased(await actor.holdFor(name))
    return actor.as(async (bus) => {
      const detail = await letterOf(bus, { id: params.id, from: body.from, to: body.to })
      const admits = new OutputBudget(inside.options.output_bytes).takes
      return settled(await requeueDeadLetter(bus, connectAs, { detail, reason: body.reason, admits }), {
        action: 'requeue',
        by: caller.name,
      })
    })
  },
})

export const dropDeadLetterRoute = route({
  method: 'post',
  path: '/api/pass-over/dlq/{id}/drop',
  name: 'dropDeadLetter',
  summary: 'Close a dead letter: an event records who, when and why, and nothing is deleted',
  scope: 'admin',
  access: 'people',
  params: idPath,
  body: settleLetter,
  answers: { 200: { what: 'Dropped, by this request or earlier', schema: settledLetter } },
  problems: [404, 409],
  handle({ params, body, caller, actor }) {
    return actor.as(async (bus) => {
      const detail = await letterOf(bus, { id: params.id, from: body.from, to: body.to })
      return settled(await dropDeadLetter(bus, detail, body.reason), { action: 'drop', by: caller.name })
    })
  },
})

/** Wraps a shared connection so that closing it only releases it. */
function leased({ bus, release }: { bus: Bus; release: () => void }): Bus {
  return withMembers(bus, { [Symbol.asyncDispose]: async () => release() })
}

function settled({ document, sentence, exit }: ResolutionResult, { action, by }: { action: 'requeue' | 'drop'; by: string }): Reply {
  if (exit !== 0) throw new HttpProblem(createProblem(exit === 4 ? 422 : 409, { code: 'E031', detail: sentence, details: document }))
  const done = document[action === 'requeue' ? 'requeued' : 'dropped'] === true
  const { id, requeued_as, status, unverified } = document
  return { status: 200, body: { id, action, done, by: document.by ?? by, unverified, requeued_as, status } }
}
