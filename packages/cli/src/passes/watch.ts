import type { Bus } from '@passover/bus'
import type { NotificationReader } from '@passover/notifier'
import { describeEvent, Failure, findPass, isOpen, type PassEvent, statusLabel } from '@passover/operator'
import type { DecisionFact, Notice, Step } from '@passover/schemas'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { readIdWindow } from '../connection/id-window.js'
import { readNameVerification } from '../connection/verified-names.js'
import { usage } from '../errors.js'
import { partiesText } from '../render/inbox.js'
import { entryText, KIND_WIDTH } from '../render/timeline.js'
import { watchReader } from '../terminal/closed-reader.js'
import { clockTime } from '../terminal/duration.js'
import { stopSignals } from '../terminal/stop-signals.js'
import { count, cut, formatCommands, oneLine } from '../terminal/text.js'
import { ringBell } from '../terminal/writer.js'

export interface WatchRequest {
  id?: string
  from?: string
  to?: string
  count?: number
  all?: true
  /** Shows only notifications for people: returns, and items that wait for them. */
  notifications?: true
  bell?: true
}

const SUMMARY_SHOWN = 160

/** Follows the stream until Ctrl-C, or until `count` events were shown. */
export async function runWatch(context: Context, request: WatchRequest): Promise<number> {
  if (request.id === '') throw usage('the id is empty', '`passover watch` without an id follows all passes')
  await using bus = await connectPerson(context)
  using signals = stopSignals(() => {})
  using reader = watchReader()
  const { terminal } = context
  const shown = new Shown(context, request)
  const rules = await readIdWindow(bus)
  const names = await readNameVerification(bus, context)
  const { last } = await bus.bounds()
  const from = request.all ? 1 : last + 1
  let reads: NotificationReader | undefined
  await using _reader = await bus.follow({ from }, async (stored, fact) => {
    const event = describeEvent(stored, fact, { subjects: bus.subjects, names })
    if (!event || !isWantedFact(event, request)) return
    if (!request.notifications) shown.add(event, () => line(event, terminal.colors.dim))
    const { mayBeTold, NotificationReader } = await import('@passover/notifier')
    if (!mayBeTold(fact)) return
    // Each notice costs reads, so notices of old messages are only read if notifications were requested.
    if (stored.sequence <= last && !request.notifications) return
    // The next message waits for this, so that a notification comes directly after the event it is about.
    reads ??= new NotificationReader(bus, rules)
    for (const notice of await noticesFor(reads, fact, event)) shown.add(notice, () => noticeLine(notice, context))
  })
  if (terminal.mode === 'human' && process.stderr.isTTY) terminal.note('Watching; press Ctrl-C to stop.')
  if (request.id !== undefined && !request.all && terminal.mode === 'human') await noteSilence(context, bus, { ...request, id: request.id })
  const why = await Promise.race([signals.first, shown.enough, bus.closed, reader.gone])
  if (terminal.mode === 'json') terminal.show(shown.seen, () => '')
  return why instanceof Error ? 5 : 0
}

/** Notes when a pass has ended or is unknown, since its events may never come. */
async function noteSilence({ terminal }: Context, bus: Bus, ref: { id: string; from?: string; to?: string }): Promise<void> {
  try {
    const { row } = await findPass(bus, ref)
    if (!isOpen(row))
      terminal.note(`${row.id} has already ended: ${statusLabel(row)}. To print its stored events: passover watch --all ${row.id}`)
  } catch (error) {
    if (error instanceof Failure && error.code === 'E041')
      terminal.note(`No pass ${ref.id} exists yet; waiting for it. Press Ctrl-C to stop.`)
  }
}

/** Events shown so far, up to the requested count. */
class Shown {
  readonly #context: Context
  readonly #request: WatchRequest
  readonly seen: PassEvent[] = []
  readonly enough: Promise<void>
  #count = 0
  #isEnough: () => void = () => {}

  constructor(context: Context, request: WatchRequest) {
    this.#context = context
    this.#request = request
    this.enough = new Promise((resolve) => {
      this.#isEnough = resolve
    })
  }

  add(event: PassEvent, human: () => string): void {
    const { terminal } = this.#context
    if (this.#count === this.#request.count) return
    this.#count += 1
    if (terminal.mode === 'json') this.seen.push(event)
    else terminal.stream(event, human)
    const rings = event.notice && this.#request.bell && terminal.mode === 'human' && process.stderr.isTTY
    if (rings) ringBell()
    if (this.#count === this.#request.count) this.#isEnough()
  }
}

/** Returns the notices for people about a message; none if the pass can no longer be read. */
async function noticesFor(
  reads: NotificationReader,
  fact: Step | DecisionFact,
  about: PassEvent,
): Promise<(PassEvent & { notice: Notice })[]> {
  const notices = await reads.noticesOf(fact).catch(() => undefined)
  return (notices ?? []).map((notice) => ({ ...about, kind: 'notification', notice }))
}

function noticeLine({ time, originator, subagent, id, notice }: PassEvent & { notice: Notice }, { terminal }: Context): string {
  const { bold, dim, yellow } = terminal.colors
  return `${dim(clockTime(time))}  ${bold(yellow('▶'))} ${originator} → ${subagent}  ${id}  ${oneLine(notificationText(notice))}`
}

/** Formats a notification as text. */
export function notificationText(notice: Notice): string {
  if (notice.event === 'approval') {
    const what = {
      dispatch: 'waits for approval of its start',
      return: `waits for the release of its result${notice.why ? ` (${notice.why})` : ''}`,
      apply: 'has changes that wait for approval',
    }[notice.item]
    return `${what}: ${formatCommands(`passover approve ${notice.pass.id} --item ${notice.item} ${partiesText(notice.pass)}`)}`
  }
  const { outcome, code, summary, findings, changes, issues } = notice
  const counts = [
    findings.error > 0 ? count(findings.error, 'error') : '',
    findings.warning > 0 ? count(findings.warning, 'warning') : '',
    changes > 0 ? count(changes, 'change') : '',
  ].filter(Boolean)
  // The summary of a failure begins with its code, which is already in the text.
  const said = code && summary?.startsWith(`${code}: `) ? summary.slice(code.length + 2) : summary
  const how = `returned: ${code ?? outcome}${issues && !code && counts.length === 0 && outcome === 'completed' ? ' with issues' : ''}`
  return `${how}${counts.length > 0 ? ` (${counts.join(', ')})` : ''}${said ? `: ${cut(said, SUMMARY_SHOWN)}` : ''}`
}

function isWantedFact(event: PassEvent, { id, from, to }: WatchRequest): boolean {
  if (id !== undefined && !event.id?.startsWith(id)) return false
  if (from !== undefined && event.originator !== from) return false
  return to === undefined || event.subagent === to
}

function line(event: PassEvent, dim: (text: string) => string): string {
  const { time, kind, by = '', originator, subagent, id, attempt, detail, unverified } = event
  const who = originator && subagent ? `${originator} → ${subagent}` : ''
  return `${dim(clockTime(time))}  ${kind.padEnd(KIND_WIDTH)} ${who}  ${id ?? ''}  ${entryText({ kind, by, attempt, detail, unverified })}`
}
