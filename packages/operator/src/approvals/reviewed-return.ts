import type { Bus } from '@passover/bus'
import { chooseModifications, type ModificationChoice, type NumberedModification } from '@passover/core'
import { oneLine } from '@passover/core/text'
import { type AnsweredPass, type InboxItem, sha256 } from '@passover/schemas'
import { type Accepts, notShown, type Review, reviewable, reviewReturn } from '@passover/sdk/internal'
import { Failure, usage } from '../errors.js'
import { type PassResult, readResult } from '../passes/result.js'

/** A return as a person is shown it. */
export interface ShownReturn {
  result: PassResult | undefined
  modifications: NumberedModification[]
  /** What the approval of its changes takes; absent where none is decided about. */
  review?: Review
}

/** Reads the return that is decided about; undefined where it need not be shown. */
export type ReadShown = (pass: AnsweredPass, due: InboxItem) => Promise<PassResult | undefined>

/**
 * The return that is decided about. Failure E013: what is shown is not what the audit says is decided about; E021: its changes are to be
 * taken, and it cannot be read whole, so that nobody can say what they are.
 */
export async function loadShownReturn(
  bus: Bus,
  pass: AnsweredPass,
  { due, takes, read = (one) => readResult(bus, one) }: { due: InboxItem; takes: boolean; read?: ReadShown | undefined },
): Promise<Omit<ShownReturn, 'review'>> {
  if (pass.return && sha256(pass.return.data) !== due.digest) throw otherReturnError(due)
  const result = await read(pass, due)
  const output = result && 'output' in result ? result.output : undefined
  const modifications = reviewable(output?.artifacts ?? [])
  if (takes && !(output?.artifacts && modifications)) {
    const why = result && 'unreadable' in result ? `: ${result.unreadable}` : ''
    throw new Failure('E021', `the changes of ${due.id} cannot be read${why}`, { hint: `passover show ${due.id} says why`, exit: 1 })
  }
  return { result, modifications: modifications ?? [] }
}

/** Reviews what an approval takes. Failure E042: no such numbers, or changes that no diff shows and that were not accepted explicitly. */
export function reviewShown(
  shown: ShownReturn,
  due: Pick<InboxItem, 'id' | 'digest'>,
  { only, accepts = {} }: { only?: readonly number[] | undefined; accepts?: Accepts | undefined },
): Review {
  const taken = shown.modifications.filter(({ number }) => !only || only.includes(number))
  const review = reviewReturn(due.digest, taken, { whole: accepts.whole })
  const hidden = notShown(review.files, accepts)
  if (!hidden) return review
  const numbers = only ? ` --only ${only.join(',')}` : ''
  throw usage(oneLine(hidden.why), `approve it anyway: passover approve ${due.id} --item apply${numbers} --${hidden.flag}`)
}

/** What an application takes. Failure E042: there are no such numbers. */
export function chooseShown({ modifications }: ShownReturn, only: readonly number[] | undefined): ModificationChoice {
  const chosen = chooseModifications(modifications, only)
  if (chosen.unknown.length === 0) return chosen.modifications
  const range = modifications.length === 1 ? 'there is only change 1' : `its changes are 1 to ${modifications.length}`
  throw usage(`--only ${only?.join(',')}: there is no change ${chosen.unknown.join(', ')}; ${range}`, 'passover show lists them')
}

/** A decision is about the return that the stream holds, and about no other. Failure E013. */
export async function verifyStored(bus: Bus, pass: AnsweredPass, due: Pick<InboxItem, 'id' | 'digest'>): Promise<void> {
  const sequences = pass.record?.sequences as { return?: number } | undefined
  if (sequences?.return === undefined) return
  const stored = await bus.journal.message(sequences.return)
  if (stored && sha256(stored.data) !== due.digest) throw otherReturnError(due)
}

function otherReturnError({ id }: Pick<InboxItem, 'id'>): Failure {
  return new Failure('E013', `the return of ${id} that was shown is not the stored one`, {
    hint: 'look again: passover inbox; passover doctor tells whether the audit service is the right one',
    exit: 4,
  })
}
