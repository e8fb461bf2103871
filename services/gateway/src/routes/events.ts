import { eventsParameters, feedEvent } from '@passover/schemas/http'
import { z } from 'zod'
import { requireConnected } from '../auth/access.js'
import { route } from '../route.js'

const headers = z.object({
  /** Id of the last received event. The feed continues after it, on this or another gateway. */
  'last-event-id': z
    .string()
    .regex(/^\d{1,16}$/, 'the id of an event')
    .optional(),
})

export const followEvents = route({
  method: 'get',
  path: '/api/pass-over/events',
  name: 'followEvents',
  summary: 'Stream stored messages as server-sent events; ids are sequences of the stream, and Last-Event-ID continues after one',
  scope: 'read',
  access: 'own',
  query: eventsParameters,
  headers,
  answers: { 200: { what: 'Events: passover (data: FeedEvent), position, gap, reset', media: 'text/event-stream', schema: feedEvent } },
  async handle({ query, headers: given, caller, inside, request, actor }) {
    const told = given['last-event-id']
    const after = told === undefined ? query.after : Number(told)
    const owner = await actor.hold()
    try {
      requireConnected(owner.bus)
      if (request.method !== 'HEAD') {
        // An agent may not read the stream. The gateway reads it and shows the agent its own passes, only while the server accepts the agent.
        const bus = caller.kind === 'agent' ? inside.bus : owner.bus
        return await inside.feeds.open({ bus, owner, caller, wanted: query, after })
      }
    } catch (error) {
      owner.release()
      throw error
    }
    // A HEAD request has no body.
    owner.release()
    return new Response(null, { headers: { 'content-type': 'text/event-stream' } })
  },
})
