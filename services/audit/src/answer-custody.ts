import { passError } from '@passover/core'
import type { CustodyAnswer, Question } from '@passover/schemas'
import type { CustodyWatch } from './removal/custody-watch.js'

export interface CustodyAnswerDeps {
  custody: CustodyWatch
  seesAll: (name: string) => boolean
}

/** What is held and what was erased. E013: for people alone. */
export async function answerCustody(
  deps: CustodyAnswerDeps,
  asker: string,
  _: Extract<Question, { op: 'custody' }>,
): Promise<CustodyAnswer> {
  if (!deps.seesAll(asker)) return { ok: false, error: passError('E013', 'Only people are told what is held and what was erased') }
  const { holds, erasures } = await deps.custody.current()
  return { ok: true, holds, erasures }
}
