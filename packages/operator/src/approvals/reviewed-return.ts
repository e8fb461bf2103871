import type { Bus } from '@passover/bus'
import { chooseModifications, type ModificationChoice, type NumberedModification } from '@passover/core'
import { oneLine } from '@passover/core/text'
import { type AnsweredPass, type InboxItem, sha256 } from '@passover/schemas'
import { type Accepts, notShown, type Review, reviewable, reviewReturn } from '@passover/sdk/internal'
import { Failure, usage } from '../errors.js'
import { type PassResult, readResult } from '../passes/result.js'

/** A return as shown to a person. */
export interface ShownReturn {
  result: PassResult | undefined
  modifications: NumberedModification[]
  /** Review of the changes that the approval covers. Absent if the decision is not about changes. */
  review?: Review
}

/** Reads the return to decide about. Returns `undefined` if it need not be shown. */
export type ReadShown = (pass: AnsweredPass, due: InboxItem) => Promise<PassResult | undefined>

/**
 * Loads the return to decide about. Throws Failure E013 if it is not the return that the audit service refers to, and E021 if the decision
 * approves changes but the return cannot be read completely.
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
    throw new Failure('E021', `the changes of ${due.id} cannot be read${why}`, { hint: `passover show ${due.id} shows why`, exit: 1 })
  }
  return { result, modifications: modifications ?? [] }
}

/** Reviews the changes that an approval covers. Throws Failure E042 if a change has no diff and was not accepted explicitly. */
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
  throw usage(oneLine(hidden.why), `to approve it anyway: passover approve ${due.id} --item apply${numbers} --${hidden.flag}`)
}

/** Returns the choice of changes for an approval. Throws Failure E042 for numbers that do not exist. */
export function chooseShown({ modifications }: ShownReturn, only: readonly number[] | undefined): ModificationChoice {
  const chosen = chooseModifications(modifications, only)
  if (chosen.unknown.length === 0) return chosen.modifications
  const range = modifications.length === 1 ? 'there is only change 1' : `its changes are 1 to ${modifications.length}`
  throw usage(`--only ${only?.join(',')}: there is no change ${chosen.unknown.join(', ')}; ${range}`, 'passover show lists the changes')
}

/** Verifies that the decision refers to the return in the stream. Throws Failure E013 if not. */
export async function verifyStored(bus: Bus, pass: AnsweredPass, due: Pick<InboxItem, 'id' | 'digest'>): Promise<void> {
  const sequences = pass.record?.sequences as { return?: number } | undefined
  if (sequences?.return === undefined) return
  const stored = await bus.journal.message(sequences.return)
  if (stored && sha256(stored.data) !== due.digest) throw otherReturnError(due)
}

function otherReturnError({ id }: Pick<InboxItem, 'id'>): Failure {
  return new Failure('E013', `the return of ${id} that was shown differs from the stored one`, {
    hint: 'to see the current item: passover inbox; passover doctor checks the audit service',
    exit: 4,
  })
}
