import type { DeadLetter, DeadLetterDetail, TimelineEntry } from '@passover/schemas'
import { formatPerson } from '../connection/verified-names.js'
import { type Column, renderTable } from '../render/table.js'
import { renderTimeline } from '../render/timeline.js'
import { ago, dateTime } from '../terminal/duration.js'
import type { Terminal } from '../terminal/terminal.js'
import { count, cut, cutStart, formatCommands, indentContinuation, oneLine, quoteLines, visibleLines } from '../terminal/text.js'

const TEXT_SHOWN = 2_000
const BYTES_SHOWN = 256
const BYTES_PER_LINE = 16

/** Renders the table of `dlq list`. */
export function renderDeadLetters(letters: DeadLetter[], now: number, terminal: Pick<Terminal, 'colors' | 'columns'>): string {
  const columns: Column<DeadLetter>[] = [
    { head: 'ID', cell: ({ id }) => id },
    {
      head: 'STATE',
      cell: letterState,
      color: ({ state }) => (state === 'open' || state === 'pending' ? terminal.colors.red : terminal.colors.dim),
    },
    { head: 'CAUSE', cell: ({ code, message }) => `${code} ${message}`, shrinks: true, optional: true },
    { head: 'FROM', cell: ({ originator }) => originator },
    { head: 'TO', cell: ({ subagent }) => subagent },
    { head: 'ATTEMPTS', cell: ({ attempts, deliveries }) => String(attempts ?? deliveries ?? ''), optional: true },
    { head: 'DIED', cell: ({ time }) => ago(time, now) },
  ]
  return renderTable(columns, letters, terminal)
}

/** Formats the state of a dead letter, for list and detail alike. */
export function letterState({ state, settlement }: DeadLetter): string {
  if (!settlement) return state
  const because = settlement.reason ? `: ${settlement.reason}` : ''
  return settlement.action === 'requeue'
    ? `requeued as ${settlement.requeued_as}`
    : `dropped by ${formatPerson(settlement.by, settlement)}${because}`
}

interface View extends Pick<Terminal, 'colors'> {
  now: number
  history: TimelineEntry[]
  stderr: string | undefined
}

/** Renders one dead letter and the commands that settle it. */
export function renderDeadLetter({ letter, error, data }: DeadLetterDetail, { colors, now, history, stderr }: View): string {
  const { bold, red } = colors
  const sections = [
    `${bold(letter.id)}  ${oneLine(letterState(letter))}`,
    `${red(error.code)} ${indentContinuation(visibleLines(error.message))}`,
    factsOf(letter, now),
  ]
  if (history.length > 0) sections.push(`${bold('Timeline')}\n${renderTimeline(history, { colors })}`)
  if (stderr) sections.push(`${bold('Last part of stderr')}\n${quoteLines(visibleLines(cutStart(stderr, TEXT_SHOWN)))}`)
  if (data) sections.push(`${bold('Stored bytes')} (${sizeOf(letter)})\n${quoteLines(shownBytes(data))}`)
  const next = nextOf(letter)
  if (next) sections.push(formatCommands(next))
  return sections.join('\n\n')
}

function factsOf(letter: DeadLetter, now: number): string {
  const { originator, subagent, what, attempts, deliveries, settlement } = letter
  const facts: [string, string | undefined][] = [
    ['pair', `${originator} → ${subagent}`],
    [
      'what',
      {
        work: 'work whose worker was lost in the last attempt',
        request: 'a request that could not be processed',
        notice: 'a notification that could not be delivered',
      }[what],
    ],
    ['died', `${dateTime(letter.time)} (${ago(letter.time, now)})`],
    ['attempts', attempts === undefined ? undefined : String(attempts)],
    ['deliveries', deliveries === undefined ? undefined : String(deliveries)],
    [
      'settled',
      settlement &&
        `by ${formatPerson(settlement.by, settlement)} ${ago(settlement.time, now)}${settlement.reason ? `: ${settlement.reason}` : ''}`,
    ],
  ]
  return facts.flatMap(([name, value]) => (value === undefined ? [] : [`  ${name.padEnd(10)} ${oneLine(value)}`])).join('\n')
}

function sizeOf({ bytes = 0, truncated }: DeadLetter): string {
  return `${count(bytes, 'byte')}${truncated ? ', truncated' : ''}`
}

/** Shows text with control characters made visible, and other bytes as a hex dump. */
function shownBytes(data: Uint8Array): string {
  const text = Buffer.from(data).toString('utf8')
  if (!text.includes('\uFFFD')) return visibleLines(cut(text, TEXT_SHOWN))
  const lines: string[] = []
  for (let at = 0; at < Math.min(data.length, BYTES_SHOWN); at += BYTES_PER_LINE) {
    const some = Buffer.from(data.subarray(at, Math.min(at + BYTES_PER_LINE, BYTES_SHOWN)))
    const readable = some.toString('latin1').replace(/[^\x20-\x7e]/g, '.')
    lines.push(`${at.toString(16).padStart(6, '0')}  ${some.toString('hex').padEnd(2 * BYTES_PER_LINE)}  ${readable}`)
  }
  return data.length > BYTES_SHOWN ? [...lines, '…'].join('\n') : lines.join('\n')
}

function nextOf({ id, state, what, code, settlement }: DeadLetter): string | undefined {
  if (settlement?.requeued_as) return `New pass: passover show ${settlement.requeued_as}`
  if (state === 'pending') return 'No dispatcher has closed it yet; to start one: passover up'
  if (state !== 'open') return undefined
  const again = what === 'notice' || code === 'E005' ? '' : `passover dlq requeue ${id}   `
  return `${again}passover dlq drop ${id} --reason <text>`
}
