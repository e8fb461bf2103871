import type { InboxItem } from '@passover/schemas'
import type { ShownReturn } from '@passover/sdk/people'
import { agreed } from './agreed.js'
import type { Context } from './context.js'
import { ABOUT, renderItem } from './render/inbox.js'
import { count } from './text.js'

interface Asked {
  verdict: 'approve' | 'deny'
  only?: readonly number[] | undefined
  now: () => number
}

/** Shows on a terminal what would be decided about, and asks. */
export function confirmDecision({ terminal, person }: Context, asked: Asked) {
  return async (due: InboxItem, returned: ShownReturn | undefined): Promise<boolean> => {
    terminal.note(renderItem(due, { colors: terminal.noteColors, now: asked.now(), person }))
    return agreed(questionOf(due, returned, asked), asked.verdict === 'approve' ? 'yes' : 'no')
  }
}

/** `Approve the application of the changes, 2 of 3 taken?` */
export function questionOf(due: Pick<InboxItem, 'item'>, returned: ShownReturn | undefined, { verdict, only }: Omit<Asked, 'now'>): string {
  const verb = verdict === 'approve' ? 'Approve' : 'Deny'
  const all = returned?.modifications.length ?? 0
  const part = due.item === 'apply' && verdict === 'approve' ? `, ${only?.length ?? all} of ${count(all, 'change')} taken` : ''
  return `${verb} the ${ABOUT[due.item]}${part}?`
}
