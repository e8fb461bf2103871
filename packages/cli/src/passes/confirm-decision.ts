import { shellWord } from '@passover/core/text'
import { type ShownReturn, shownDigest } from '@passover/operator'
import type { InboxItem } from '@passover/schemas'
import { countWarnings } from '../apply/diff.js'
import { renderReview } from '../apply/render.js'
import type { Context } from '../connection/context.js'
import { CliFailure, usage } from '../errors.js'
import { confirmAction } from '../input/confirm.js'
import { ITEM_TITLES, partiesText, renderItem } from '../render/inbox.js'
import { count } from '../terminal/text.js'

interface DecisionQuestion {
  verdict: 'approve' | 'deny'
  only?: readonly number[] | undefined
  /** Decides without asking. */
  yes?: true | undefined
  /** Digest of what the person was shown before. */
  digest?: string | undefined
  now: () => number
}

/**
 * Shows on stderr what the decision is about, with all changes that an approval includes, and asks for confirmation. Scripts approve changes with
 * `--digest`, which names what an earlier command showed, or with `--yes`.
 */
export function confirmDecision({ terminal, person }: Context, question: DecisionQuestion) {
  return async (due: InboxItem, returned: ShownReturn | undefined): Promise<boolean> => {
    const { digest, yes } = question
    const shown = shownDigest(due, returned)
    if (digest !== undefined && digest !== shown) throw otherDigest(due, shown)
    const review = returned?.review
    const scripted = yes || digest !== undefined
    if (!terminal.interactive && !review) return true
    if (terminal.interactive && !scripted)
      terminal.note(renderItem(due, { colors: terminal.noteColors, now: question.now(), person, whole: true }))
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

function undecided(item: InboxItem, shown: string, { only }: DecisionQuestion): CliFailure {
  const numbers = only ? ` --only ${only.join(',')}` : ''
  return usage(
    `nothing was approved: there is no terminal to ask for confirmation`,
    `to approve exactly these changes: passover approve ${shellWord(item.id)} --item apply ${partiesText(item)}${numbers} --digest ${shown}`,
  )
}

function otherDigest(due: InboxItem, shown: string): CliFailure {
  const { id, item } = due
  return new CliFailure('E013', `nothing was decided: the pending item of ${id} has the digest ${shown}, not the one in --digest`, {
    hint:
      item === 'apply'
        ? `to review the changes: passover apply ${shellWord(id)} ${partiesText(due)} --dry-run`
        : `to review the item: passover show ${shellWord(id)} ${partiesText(due)}`,
    exit: 4,
  })
}

/** Formats the question: `Approve the application of the changes, 2 of 3 taken?` */
export function decisionQuestion(
  due: Pick<InboxItem, 'item'>,
  returned: ShownReturn | undefined,
  { verdict, only }: Omit<DecisionQuestion, 'now'>,
): string {
  const verb = verdict === 'approve' ? 'Approve' : 'Deny'
  const all = returned?.modifications.length ?? 0
  const part = due.item === 'apply' && verdict === 'approve' ? `, ${only?.length ?? all} of ${count(all, 'change')} approved` : ''
  return `${verb} the ${ITEM_TITLES[due.item]}${part}?`
}
