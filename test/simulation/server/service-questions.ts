import type { Consumption, Subjects } from '@passover/bus'
import type { SimEars } from './core-subscriptions.js'
import type { Line } from './network-line.js'
import type { CoreMessage, SimServer } from './server.js'

const ASK_MS = 2_000

/** Core request; undefined when nobody answers in time. */
export function askService(
  { server, line }: { server: SimServer; line: Line },
  { subject, question, timeout_ms = ASK_MS }: { subject: string; question: unknown; timeout_ms?: number | undefined },
): Promise<unknown> {
  return new Promise((resolve) => {
    line.process.after(timeout_ms, () => resolve(undefined))
    line.up(() => {
      const reply = (value: unknown) => line.down(() => resolve(value), 'core')
      if (!server.ask(subject, structuredClone(question), reply)) reply(undefined)
    })
  })
}

/** Answers a service's questions; a handler that throws leaves its asker without answer. */
export async function answerService(
  { line, subjects }: { line: Line; subjects: Subjects },
  ears: SimEars,
  { filter, handler }: { filter: string; handler: (asker: string, question: unknown) => Promise<unknown> },
): Promise<Consumption> {
  const hear = ({ subject, data, reply }: CoreMessage) => {
    const parsed = subjects.parse(subject)
    const asker = parsed.kind === 'ask' ? parsed.asker : parsed.kind === 'register' ? parsed.agent : undefined
    if (asker === undefined || !reply) return
    handler(asker, data).then(
      (value) => value !== undefined && line.up(() => reply(structuredClone(value))),
      () => undefined,
    )
  }
  const hearing = await ears.open([{ filter, queue: 'passover', hear }])
  const drain = async () => hearing[Symbol.asyncDispose]()
  return { drain, closed: new Promise(() => undefined), [Symbol.asyncDispose]: drain }
}
