import { healthReport } from '@passover/schemas'
import { requireConnected } from '../auth/access.js'
import { route } from '../route.js'

export const livez = route({
  method: 'get',
  path: '/livez',
  name: 'livez',
  summary: 'Check whether the process needs a restart',
  access: 'public',
  answers: {
    200: { what: 'The process is alive', schema: healthReport },
    503: { what: 'The process needs a restart', schema: healthReport },
  },
  handle({ inside }) {
    const report = inside.health()
    return Promise.resolve({ status: report.live ? 200 : 503, body: report })
  },
})

export const readyz = route({
  method: 'get',
  path: '/readyz',
  name: 'readyz',
  summary: 'Check whether the gateway can serve requests',
  access: 'public',
  answers: {
    200: { what: 'The gateway can serve requests', schema: healthReport },
    503: { what: 'The gateway cannot serve requests', schema: healthReport },
  },
  handle({ inside }) {
    const report = inside.health()
    return Promise.resolve({ status: report.ready ? 200 : 503, body: report })
  },
})

export const metrics = route({
  method: 'get',
  path: '/metrics',
  name: 'metrics',
  summary: 'Get metrics for Prometheus',
  scope: 'read',
  access: 'people',
  answers: { 200: { what: 'Metrics in the text format of Prometheus', media: 'text/plain' } },
  async handle({ inside, actor }) {
    const { text, type } = await actor.as((bus) => {
      requireConnected(bus)
      return inside.metrics.text()
    })
    return new Response(text, { headers: { 'content-type': type, 'cache-control': 'no-store' } })
  },
})

export const openapi = route({
  method: 'get',
  path: '/openapi.json',
  name: 'openapi',
  summary: 'Get this OpenAPI document',
  access: 'public',
  answers: { 200: { what: 'OpenAPI 3.1' } },
  // The document is public, so it is generated once.
  handle: ({ inside }) => {
    const headers = { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' }
    return Promise.resolve(new Response(inside.document(), { headers }))
  },
})
