import type { Bus } from '@passover/bus'
import { shellWord } from '@passover/core/text'
import { type ShownReturn, shownDigest } from '@passover/operator'
import type { AnsweredPass, InboxItem } from '@passover/schemas'
import { countWarnings } from '../apply/diff.js'
import { renderReview } from '../apply/render.js'
import type { Context } from '../connection/context.js'
import { CliFailure, usage } from '../errors.js'
import { confirmAction } from '../input/confirm.js'
import { ITEM_TITLES, partiesText, renderItem } from '../render/inbox.js'
import { REQUEST_SHOWN, renderRequest } from '../render/request.js'
import { readRequestContent } from '../stored-messages/request-content.js'
import { count } from '../terminal/text.js'

interface DecisionQuestion {
  verdict: 'approve' | 'deny'
  only?: readonly number[] | undefined
  /** Decides without asking. */
  yes?: true | undefined
  /** Digest of what the person was shown before. */
  digest?: string | undefined
}

/**
 * Shows on stderr what the decision is about, with the whole request or all changes that an approval includes, and asks for confirmation. Scripts
 * approve a start or changes with `--digest`, which names what an earlier command showed, or with `--yes`.
 */
export function confirmDecision({ terminal, person }: Context, bus: Bus, question: DecisionQuestion) {
  return async (due: InboxItem, returned: ShownReturn | undefined, pass: AnsweredPass): Promise<boolean> => {
    const { digest, yes, verdict } = question
    const shown = shownDigest(due, returned)
    if (digest !== undefined && digest !== shown) throw otherDigest(due, shown)
    const review = returned?.review
    const starts = due.item === 'dispatch' && verdict === 'approve'
    const scripted = yes || digest !== undefined
    if (!terminal.interactive && !review && !starts) return true
    if (terminal.interactive && !scripted)
      terminal.note(renderItem(due, { colors: terminal.noteColors, now: bus.now(), person, whole: true }))
    if (starts && digest === undefined) {
      terminal.exhibit(renderRequest(await readRequestContent(bus, pass), { colors: terminal.noteColors, most: REQUEST_SHOWN }))
      terminal.note(`Digest of this request: ${shown}. To print all of it: ${showCommand(due)}`)
    }
    if (review && digest === undefined) {
      const warned = countWarnings(review.files)
      terminal.exhibit(renderReview(review.files, { colors: terminal.noteColors, all: returned.modifications }))
      terminal.note(`${count(review.files.length, 'file')}${warned ? `, ${warned}` : ''}. Digest of these changes: ${review.digest}`)
    }
    if (scripted) return true
    if (!terminal.interactive) throw undecided(due, shown, question)
    return confirmAction(decisionQuestion(due, returned, question))
  }
}

/** Returns the command that prints the whole request. */
function showCommand(due: InboxItem): string {
  return `passover show ${shellWord(due.id)} ${partiesText(due)} --full-request`
}

function undecided(due: InboxItem, shown: string, { only }: DecisionQuestion): CliFailure {
  const { id, item } = due
  const numbers = only ? ` --only ${only.join(',')}` : ''
  const what = item === 'dispatch' ? 'this request' : 'these changes'
  return usage(
    `nothing was approved: there is no terminal to ask for confirmation`,
    `to approve exactly ${what}: passover approve ${shellWord(id)} --item ${item} ${partiesText(due)}${numbers} --digest ${shown}`,
  )
}

function otherDigest(due: InboxItem, shown: string): CliFailure {
  const { id, item } = due
  const hint = {
    dispatch: `to review the request: ${showCommand(due)}`,
    return: `to review the item: passover show ${shellWord(id)} ${partiesText(due)}`,
    apply: `to review the changes: passover apply ${shellWord(id)} ${partiesText(due)} --dry-run`,
  }[item]
  return new CliFailure('E013', `nothing was decided: the pending item of ${id} has the digest ${shown}, not the one in --digest`, {
    hint,
    exit: 4,
  })
}

/** Formats the question: `Approve the application of the changes, 2 of 3 taken?` */
export function decisionQuestion(
  due: Pick<InboxItem, 'item'>,
  returned: ShownReturn | undefined,
  { verdict, only }: DecisionQuestion,
): string {
  const verb = verdict === 'approve' ? 'Approve' : 'Deny'
  const all = returned?.modifications.length ?? 0
  const part = due.item === 'apply' && verdict === 'approve' ? `, ${only?.length ?? all} of ${count(all, 'change')} approved` : ''
  return `${verb} the ${ITEM_TITLES[due.item]}${part}?`
}
