import { createRequire } from 'node:module'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { headersOf } from './headers.js'
import { type ClientParser, ProtocolReader } from './protocol-reader.js'
import type { ReceivedMessage } from './raw-message.js'

interface ParserEvent {
  kind: number
  msg?: { subject: Uint8Array; reply?: Uint8Array; sid: number; hdr: number }
  data?: Uint8Array
}
/** The client's own parser, which stands inside it. */
const inClient = createRequire(createRequire(import.meta.url).resolve('@nats-io/transport-node'))
const { Kind, Parser } = inClient('@nats-io/nats-core/internal') as {
  Kind: { MSG: number }
  Parser: new (dispatcher: { push: (event: ParserEvent) => void }) => ClientParser
}

/** The bus's subscriptions here; others are the client's own. */
const OURS = 3

interface Heard {
  subject: string
  reply: string
  headers: string
  body: string
}

/** What comes out of the client's parser, and who it is for. */
function listening() {
  const ours: Heard[] = []
  const all: string[] = []
  const client = new Parser({
    push: (event: ParserEvent) => {
      if (event.kind !== Kind.MSG || !event.msg) {
        all.push(`${event.kind} ${Buffer.from(event.data ?? []).toString()}`)
        return
      }
      const { subject, reply, sid, hdr } = event.msg
      const data = Buffer.from(event.data ?? [])
      const head = Math.max(0, hdr)
      const heard: Heard = {
        subject: Buffer.from(subject).toString(),
        reply: Buffer.from(reply ?? []).toString(),
        headers: data.subarray(0, head).toString(),
        body: data.subarray(head).toString('latin1'),
      }
      all.push(JSON.stringify([sid, heard]))
      if (sid < OURS) ours.push(heard)
    },
  })
  return { client, ours, all }
}

function heardBy(all: string[], sid: number) {
  return (message: ReceivedMessage): void => {
    const { subject, reply = '', data } = message
    const headers = headersOf(message).text()
    all.push(
      JSON.stringify([
        sid,
        { subject, reply, headers: headers === 'NATS/1.0\r\n' ? '' : headers, body: Buffer.from(data).toString('latin1') },
      ]),
    )
  }
}

const word = fc.string({ unit: fc.constantFrom('a', 'Z', '.', '_', '$', 'é', '1'), minLength: 1, maxLength: 12 })
const message = fc
  .record({
    subject: word,
    sid: fc.integer({ min: 0, max: OURS + 2 }),
    reply: fc.option(word),
    body: fc.uint8Array({ maxLength: 40 }),
    headers: fc.option(word),
  })
  .map(({ subject, sid, reply, body, headers }) => {
    const block = headers === null ? undefined : Buffer.from(`NATS/1.0\r\nA: ${headers}\r\n\r\n`)
    const line = [block ? 'HMSG' : 'MSG', subject, sid, ...(reply === null ? [] : [reply]), ...(block ? [block.length] : [])].join(' ')
    const size = body.length + (block?.length ?? 0)
    return Buffer.concat([Buffer.from(`${line} ${size}\r\n`), block ?? Buffer.alloc(0), body, Buffer.from('\r\n')])
  })
const other = fc
  .constantFrom('PING\r\n', 'PONG\r\n', '+OK\r\n', "-ERR 'no'\r\n", 'INFO {"a":1}\r\n', 'msg a 1 2\r\nxx\r\n', 'MSG  a\t1 2\r\nxx\r\n')
  .map((text) => Buffer.from(text))

/** Cuts bytes behind each of these places. */
function cut(bytes: Buffer, places: number[]): Buffer[] {
  const at = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b)
  return [...at, bytes.length].map((to, n) => bytes.subarray(at[n - 1] ?? 0, to))
}

describe('what the socket gives', () => {
  it('is heard as the client’s parser alone has it, however it is cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(message, message, other), { maxLength: 12 }),
        fc.array(fc.nat(2_000), { maxLength: 12 }),
        (commands, places) => {
          const bytes = Buffer.concat(commands)
          const alone = listening()
          alone.client.parse(bytes)
          const both = listening()
          const inbound = new ProtocolReader(both.client, (sid) => (sid < OURS ? heardBy(both.all, sid) : undefined))
          for (const piece of cut(bytes, places)) inbound.parse(piece)
          expect(both.all).toEqual(alone.all)
        },
      ),
      { numRuns: 500 },
    )
  })

  it('does not pass through the client’s parser where the bus subscribed and the message is whole', () => {
    const { client, ours, all } = listening()
    const inbound = new ProtocolReader(client, (sid) => (sid < OURS ? heardBy(all, sid) : undefined))
    inbound.parse(Buffer.from('MSG a 1 2\r\nxx\r\nHMSG b 2 r 12 13\r\nNATS/1.0\r\n\r\ny\r\n'))
    expect(all).toHaveLength(2)
    expect(ours).toEqual([])
  })

  it('is the client’s own until its parser is between two commands', () => {
    const { client, ours, all } = listening()
    client.parse(Buffer.from('MSG a 1 2\r\nx'))
    const inbound = new ProtocolReader(client, (sid) => (sid < OURS ? heardBy(all, sid) : undefined))
    inbound.parse(Buffer.from('x\r\nMSG b 1 1\r\ny\r\n'))
    expect(ours.map(({ subject }) => subject)).toEqual(['a', 'b'])
    inbound.parse(Buffer.from('MSG c 1 1\r\nz\r\n'))
    expect(ours).toHaveLength(2)
    expect(all).toHaveLength(3)
  })

  it.each(['MSG a 1 x\r\n', 'HMSG a 1 9 3\r\n', 'MSG a\r\n', 'what is this\r\n'])(
    'that is no command is the client’s to refuse: %j',
    (line) => {
      const inbound = new ProtocolReader(listening().client, () => undefined)
      expect(() => inbound.parse(Buffer.from(line))).toThrow(/error/i)
    },
  )

  it('keeps a line without an end only so long', () => {
    const { client, all } = listening()
    const inbound = new ProtocolReader(client, () => undefined)
    const info = `INFO {"a":"${'x'.repeat(100_000)}"}`
    inbound.parse(Buffer.from(info))
    inbound.parse(Buffer.from('\r\nMSG a 9 2\r\nxx\r\n'))
    expect(all).toHaveLength(2)
  })
})
