import { eventsParameters, feedEvent } from '@passover/schemas/http'
import { z } from 'zod'
import { route } from '../route.js'

const headers = z.object({
  /** Of the last event that was heard: the feed goes on after it, here or at another gateway. */
  'last-event-id': z
    .string()
    .regex(/^\d{1,16}$/, 'the id of an event')
    .optional(),
})

export const followEvents = route({
  method: 'get',
  path: '/api/pass-over/events',
  name: 'followEvents',
  summary: 'What is stored, as server-sent events; ids are sequences of the stream, and Last-Event-ID goes on after one',
  scope: 'read',
  access: 'own',
  query: eventsParameters,
  headers,
  answers: { 200: { what: 'Events: passover (data: FeedEvent), position, gap, reset', media: 'text/event-stream', schema: feedEvent } },
  async handle({ query, headers: given, caller, inside, request, actor }) {
    // Nobody would read it.
    if (request.method === 'HEAD') return new Response(null, { headers: { 'content-type': 'text/event-stream' } })
    const told = given['last-event-id']
    const after = told === undefined ? query.after : Number(told)
    // An agent may not read the stream; the gateway does it for it, and shows it its own passes.
    if (caller.kind === 'agent') return inside.feeds.open({ bus: inside.bus, caller, wanted: query, after, ended: () => undefined })
    const { bus, release } = await actor.hold()
    try {
      return await inside.feeds.open({ bus, caller, wanted: query, after, ended: release })
    } catch (error) {
      release()
      throw error
    }
  },
})
