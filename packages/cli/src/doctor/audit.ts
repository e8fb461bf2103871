import type { Bus, NoReply } from '@passover/bus'
import { type OverdueArchive, timeAnswer } from '@passover/schemas'
import type { Terminal } from '../terminal/terminal.js'
import { count } from '../terminal/text.js'
import { broken, type Check, ok, warning } from './check.js'

const PERMISSIONS_DOC = 'docs/reference/permissions.md'

/** Checks that an audit service answers this person, lists every pass for it, and reports no trouble. */
export async function checkAudit(bus: Bus): Promise<Check[]> {
  let why: NoReply = 'timeout'
  const answered = await bus.ask(
    { op: 'time' },
    {
      onUnanswered: (reason) => {
        why = reason
      },
    },
  )
  if (answered === undefined) return [unanswered(bus.identity, why)]
  const answer = timeAnswer.safeParse(answered)
  if (!answer.success)
    return [warning('audit', 'its answer has a format that this version does not know', 'run the same version on both sides')]
  if (!answer.data.ok) return [broken('audit', `it refuses to answer: ${answer.data.error.message}`, 'try again in a few seconds')]
  const { sees_all, has_people, trouble = [], overdue } = answer.data
  const checks = trouble.map((text) => broken('audit', text, 'see the log of the audit service'))
  if (sees_all === false) checks.push(unknownPerson(bus.identity, has_people))
  if (overdue) checks.push(overdueSegments(overdue))
  return checks.length > 0 ? checks : [ok('audit', 'answers')]
}

/** Reports segments that are older than the retention and stay, with what keeps the oldest ones. */
export function overdueSegments({ count: all, segments }: OverdueArchive): Check {
  const shown = segments.map(({ segment, why, sequence, originator, subagent, id }) => {
    if (why === 'hold') return `segment ${segment} by a legal hold or a pending erasure`
    const pass = originator === undefined ? 'a message' : `a pass of ${originator} to ${subagent}${id === undefined ? '' : ` (${id})`}`
    return `segment ${segment} by ${pass} in the stream (sequence ${sequence})`
  })
  const more = all > segments.length ? `, and ${all - segments.length} more` : ''
  const text = `${count(all, 'archived segment is', 'archived segments are')} older than audit.retention_days and kept: ${shown.join(', ')}${more}`
  return warning('retention', text, 'passover show <id> tells whether the pass is open or a dead letter; passover audit hold list')
}

/** Prints on stderr why a list is empty if the audit service does not know the person who asks. */
export async function noteUnknownPerson(bus: Bus, terminal: Pick<Terminal, 'note'>): Promise<void> {
  const answer = timeAnswer.safeParse(await bus.ask({ op: 'time' }))
  if (!answer.success || !answer.data.ok || answer.data.sees_all !== false) return
  const { text, mend } = unknownPerson(bus.identity, answer.data.has_people)
  terminal.note(`Note: ${text}. ${mend?.replace(/^s/, 'S')}.`)
}

function unknownPerson(person: string, has_people: boolean | undefined): Check {
  const harm = `lists show only passes of ${person}, and the inbox is empty`
  const start = `start the audit service with PASSOVER_PEOPLE=${person}`
  if (has_people === false) return broken('audit', `the audit service was started without PASSOVER_PEOPLE: ${harm}`, start)
  return broken('audit', `the audit service does not know ${person} as a person: ${harm}`, `${start}, or use a name from that list`)
}

function unanswered(person: string, why: NoReply): Check {
  switch (why) {
    case 'no_responders':
      return broken(
        'audit',
        'no audit service receives queries: none is running, or its user may not subscribe to ask.*',
        `passover up; if one is running, its /readyz shows the refused subscription, and ${PERMISSIONS_DOC} lists the permissions that its user needs`,
      )
    case 'permission':
      return broken(
        'audit',
        `${person} may not query the audit service`,
        `allow this user to publish to ask.${person} (${PERMISSIONS_DOC})`,
      )
    default:
      return broken(
        'audit',
        'an audit service receives queries, but no answer arrives: it hangs, or its user may not publish answers',
        `see its log; give its user allow_responses (${PERMISSIONS_DOC})`,
      )
  }
}
