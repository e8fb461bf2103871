import { decidesOwn, takesPart } from '@passover/core'
import { revokedText } from '@passover/operator'
import { type AskedFor, type InboxItem, keyText, type PassKey, type ShownModification } from '@passover/schemas'
import { dateTime, duration } from '../terminal/duration.js'
import type { Terminal } from '../terminal/terminal.js'
import { count, formatCommands, indent, oneLine, sizeText, visible } from '../terminal/text.js'

interface View extends Pick<Terminal, 'colors'> {
  now: number
  person: string
  /** True for the person who decides: shows everything untruncated, but not the changes, which are shown with their diffs. */
  whole?: boolean
}

const FILES_SHOWN = 5
const CHANGES_SHOWN = 20
const OBJECTIVE_SHOWN = 160

/** Noun phrase for each item: "the start of …", "the release of …". */
export const ITEM_TITLES: Record<InboxItem['item'], string> = {
  dispatch: 'start of the work',
  return: 'release of the result',
  apply: 'application of the changes',
}

/** Renders all pending items, grouped by root pass. */
export function renderInbox(items: readonly InboxItem[], view: View): string {
  const roots = new Map<string, InboxItem[]>()
  for (const item of items) roots.set(keyText(item.root), [...(roots.get(keyText(item.root)) ?? []), item])
  const { bold } = view.colors
  const groups = [...roots.values()].map((group) => {
    const { root } = group[0] as InboxItem
    const head = `${bold(`${root.originator} → ${root.subagent}`)}  ${root.id}`
    return [head, ...group.map((item) => indent(renderItem(item, view)))].join('\n')
  })
  return groups.join('\n\n')
}

/** Returns the value that `--digest` of approve and deny takes for an item. Changes have none here: only commands that show their diffs reveal it. */
export function digestOf({ item, digest }: Pick<InboxItem, 'item' | 'digest'>): string | undefined {
  return item === 'apply' ? undefined : digest
}

/** Returns an item for --json. `digest` is the value for `--digest`; changes have `return_digest` instead, the digest of their stored output. */
export function itemDocument<Item extends Pick<InboxItem, 'item' | 'digest'>>(item: Item): object {
  if (item.item !== 'apply') return item
  const { digest, ...rest } = item
  return { ...rest, return_digest: digest }
}

/** Renders one item: its title, times, facts and the commands to decide it. */
export function renderItem(item: InboxItem, view: View): string {
  const { colors, now } = view
  const title = `${colors.yellow(ITEM_TITLES[item.item])}  ${oneLine(item.id)}  ${item.chain.map((name) => oneLine(name)).join(' → ')}`
  const times = `waiting for ${duration(Math.max(0, now - item.since))}, expires in ${duration(item.expires_at - now)} (${dateTime(item.expires_at)})`
  const facts: [string, string | undefined][] = [
    ['reason', item.reason],
    ['revoked', item.revoked && `⚠ ${revokedText(item.revoked)}; approve only with --despite-revocation`],
    ...(item.item === 'dispatch' ? askedLines(item, view) : returnedLines(item, view)),
    ['policy', `${item.policy.name} v${item.policy.version}${item.approvers ? `; approvers: ${item.approvers.join(', ') || 'none'}` : ''}`],
    ['digest', digestOf(item)],
  ]
  const lines = facts.flatMap(([name, value]) => (value === undefined ? [] : [`  ${name.padEnd(9)} ${oneLine(value)}`]))
  const changes = view.whole && item.item === 'apply' ? [] : changeLines(item, view)
  return [title, `  ${colors.dim(times)}`, ...lines, ...changes, indent(formatCommands(decisionCommands(item, view)))].join('\n')
}

function askedLines({ asked }: InboxItem, { whole }: View): [string, string | undefined][] {
  if (!asked) return []
  const shown = asked.files.slice(0, whole ? undefined : FILES_SHOWN).map(({ path, size }) => `${visible(path)} (${sizeText(size)})`)
  const more = asked.files.length + (asked.files_left_out ?? 0) - shown.length
  return [
    ['objective', objectiveText(asked, whole)],
    ['files', shown.length === 0 ? 'none' : `${shown.join(', ')}${more > 0 ? ` and ${more} more` : ''}`],
    ['context', `${sizeText(asked.context_bytes)} in total, time limit ${duration(asked.timeout_ms)}`],
    [
      'not shown',
      whole ? undefined : 'background, messages, tool results, contents of files and other fields; approve shows the whole request',
    ],
    ['rules', asked.constraints.length > 0 ? asked.constraints.join(', ') : undefined],
  ]
}

function objectiveText({ objective, objective_left_out: why }: AskedFor, whole: boolean | undefined): string | undefined {
  const shown = objective && oneLine(objective, whole ? undefined : OBJECTIVE_SHOWN)
  return why === undefined ? shown : `${shown ? `${shown} ` : ''}⚠ not shown: ${why}`
}

function returnedLines({ returned, why }: InboxItem, { whole }: View): [string, string | undefined][] {
  if (!returned) return [['result', formatCommands('too large for this list; passover show prints it')]]
  const { status, decision, summary, findings } = returned
  const counts = [
    findings.error > 0 ? count(findings.error, 'error') : '',
    findings.warning > 0 ? count(findings.warning, 'warning') : '',
    findings.info > 0 ? count(findings.info, 'remark') : '',
  ].filter(Boolean)
  return [
    ['held', why],
    [
      'result',
      `${status}${decision ? `, decision: ${decision}` : ''}${summary ? `: ${oneLine(summary, whole ? undefined : OBJECTIVE_SHOWN)}` : ''}`,
    ],
    ['findings', counts.length === 0 ? undefined : `${counts.join(', ')}: ${findings.shown[0]?.message ?? ''}`],
  ]
}

function changeLines({ returned }: InboxItem, { colors }: View): string[] {
  if (!returned) return []
  const { modifications, modifications_left_out = 0 } = returned
  const lines = modifications.slice(0, CHANGES_SHOWN).map((one) => `    ${changeLine(one, colors)}`)
  const more = modifications.length - lines.length + modifications_left_out
  if (more === 0) return lines
  const warned = modifications.slice(CHANGES_SHOWN).filter(({ warnings = [] }) => warnings.length > 0).length
  const warnings = warned > 0 ? colors.yellow(`, ${warned} of them with warnings`) : ''
  return [...lines, `    … and ${more} more${warnings}; approve shows all of them before it asks for confirmation`]
}

/** Renders a numbered change: `2. <path>  +2 -1  why (confidence high)`, with its warnings below. */
function changeLine(change: ShownModification, colors: Terminal['colors']): string {
  return `${change.number}. ${changeText(change, colors, '      ')}`
}

interface ShownChange {
  path: string
  reason: string
  confidence: string
  operation?: ShownModification['operation'] | undefined
  added?: number | undefined
  removed?: number | undefined
  omitted?: ShownModification['omitted']
  warnings?: ShownModification['warnings']
}

/** Renders one change as a line with path, line counts and reason, and each warning as a further line. */
export function changeText(change: ShownChange, colors: Terminal['colors'], by = '    '): string {
  const { path, operation = 'modify', added = 0, removed = 0, reason, confidence, omitted, warnings = [] } = change
  const how = operation === 'modify' ? '' : `  ${operation}`
  const lines = omitted
    ? colors.yellow(omitted === 'binary' ? 'binary' : 'too many changes to count')
    : `${colors.green(`+${added}`)} ${colors.red(`-${removed}`)}`
  const told = `${oneLine(path)}${how}  ${lines}  ${oneLine(reason)} (confidence ${oneLine(confidence)})`
  return [told, ...warnings.map(({ message }) => `${by}${colors.yellow(`! ${oneLine(message)}`)}`)].join('\n')
}

/** Returns the flags that select one pass even if another originator or subagent has a pass with the same id. */
export function partiesText({ originator, subagent }: Pick<PassKey, 'originator' | 'subagent'>): string {
  return `--from ${originator} --to ${subagent}`
}

/**
 * Returns the commands to type, each on a line of its own that can be pasted, and notes on other lines. The commands name the item, so that they cannot
 * decide a later one by mistake.
 */
export function decisionCommands(item: InboxItem, { person }: Pick<View, 'person'>): string {
  const key = { originator: item.originator, subagent: item.subagent, id: item.id }
  const which = `${item.id} --item ${item.item} ${partiesText(key)}`
  if (item.approvers && !item.approvers.includes(person))
    return `to be decided by ${item.approvers.join(' or ') || 'an approver, but the policy names none'}:\npassover approve ${which}`
  const parties = { key, ancestors: item.chain.slice(0, -1), approvers: item.approvers, local_person: item.local_person }
  if (takesPart(person, parties) && !decidesOwn(person, parties))
    return `to be decided by another person, because ${person} takes part in it:\npassover approve ${which}`
  const several = item.item === 'apply' && (item.returned?.modifications.length ?? 0) > 1
  return `passover approve ${which}\n${several ? 'to approve only some changes, add their numbers: --only 1,2\n' : ''}passover deny ${which}`
}
