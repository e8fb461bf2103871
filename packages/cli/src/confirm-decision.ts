import type { InboxItem } from '@passover/schemas'
import type { Context } from './context.js'
import type { ShownReturn } from './decided-return.js'
import { Finished } from './failure.js'
import { ABOUT, renderItem } from './render/inbox.js'
import { count } from './text.js'

const INTERRUPTED = 130

interface Asked {
  verdict: 'approve' | 'deny'
  only?: readonly number[] | undefined
  now: () => number
}

/** Shows on a terminal what would be decided about, and asks. */
export function confirmDecision({ terminal, person }: Context, asked: Asked) {
  return async (due: InboxItem, returned: ShownReturn | undefined): Promise<boolean> => {
    const { confirm, isCancel } = await import('@clack/prompts')
    terminal.note(renderItem(due, { colors: terminal.noteColors, now: asked.now(), person }))
    const answer = await confirm({ message: questionOf(due, returned, asked), initialValue: asked.verdict === 'approve' })
    // As every question that is left instead of answered.
    if (isCancel(answer)) throw new Finished(INTERRUPTED)
    return answer
  }
}

/** `Approve the application of the changes, 2 of 3 taken?` */
export function questionOf(due: Pick<InboxItem, 'item'>, returned: ShownReturn | undefined, { verdict, only }: Omit<Asked, 'now'>): string {
  const verb = verdict === 'approve' ? 'Approve' : 'Deny'
  const all = returned?.modifications.length ?? 0
  const part = due.item === 'apply' && verdict === 'approve' ? `, ${only?.length ?? all} of ${count(all, 'change')} taken` : ''
  return `${verb} the ${ABOUT[due.item]}${part}?`
}
