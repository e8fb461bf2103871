import { askPasses, deadLetterRef, findDeadLetter, readResult } from '@passover/operator'
import type { AnsweredPass, DeadLetterDetail } from '@passover/schemas'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { renderDeadLetter } from './render.js'

/** Shows one dead letter: cause, timeline, and its bytes if they can be displayed. */
export async function runDlqShow(context: Context, ref: { id: string; from?: string; to?: string }): Promise<number> {
  await using bus = await connectPerson(context)
  const detail = await findDeadLetter(bus, ref)
  const [pass] = await askPasses(bus, deadLetterRef(detail.letter), { history: true })
  const result = pass && (await readResult(bus, pass))
  const details = result && 'error' in result ? result.error.details : undefined
  const stderr = typeof details?.stderr === 'string' ? details.stderr : undefined
  context.terminal.show(documentOf(detail, pass, stderr), () =>
    renderDeadLetter(detail, { ...context.terminal, now: bus.now(), history: pass?.history ?? [], stderr }),
  )
  return 0
}

/** Builds the JSON document: the bytes as base64, and also as text if they are valid UTF-8. */
function documentOf({ letter, error, data }: DeadLetterDetail, pass: AnsweredPass | undefined, stderr: string | undefined): object {
  const text = data && decodeUtf8(data)
  return {
    ...letter,
    error,
    ...(data ? { data_base64: Buffer.from(data).toString('base64') } : {}),
    ...(text === undefined ? {} : { text }),
    ...(stderr === undefined ? {} : { stderr }),
    timeline: pass?.history ?? [],
  }
}

/** Returns `undefined` if the bytes are not valid UTF-8. */
export function decodeUtf8(data: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(data)
  } catch {
    return undefined
  }
}
