// Takes notifications. `PORT` is 8080 if it is not set.
import { createServer } from 'node:http'
import { verifyWebhook } from '@passover/sdk'

const secret = process.env.PASSOVER_WEBHOOK_SECRET
const seen = new Set()

const server = createServer(async (request, response) => {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  const body = Buffer.concat(chunks)
  const verdict = verifyWebhook({ body, signature: request.headers['passover-signature'], secret })
  if (!verdict.ok) return response.writeHead(401).end(verdict.why)
  const notice = JSON.parse(body)
  // The same notification can come again. A real receiver keeps the ids in its database.
  if (!seen.has(notice.id)) {
    seen.add(notice.id)
    const { originator, subagent, id } = notice.pass
    console.log(notice.event, `${originator}->${subagent}`, id, notice.event === 'return' ? notice.outcome : notice.item)
  }
  response.writeHead(204).end()
})
server.listen(Number(process.env.PORT ?? 8080), '127.0.0.1', () => console.log('listening at port', server.address().port))
