import { type Bus, machineTiming } from '@passover/bus'
import { Failure, isOpen, OPEN_STATUSES, publishCancel, queryPages } from '@passover/operator'
import { keyText, MAX_PAGE, type PassRow } from '@passover/schemas'
import type { Context } from '../connection/context.js'
import { formatPerson, readNameVerification } from '../connection/verified-names.js'
import { DECLINED, usage } from '../errors.js'
import { confirmAction } from '../input/confirm.js'
import type { Progress } from '../terminal/terminal.js'
import { count, formatCommands } from '../terminal/text.js'

/** Filter of open passes: all of an originator, or only those to one subagent or in one session. */
interface Chosen {
  from: string
  to?: string | undefined
  session?: string | undefined
}

export interface CancelAllRequest extends Chosen {
  reason?: string | undefined
  dryRun?: true | undefined
  yes?: true | undefined
}

const BATCH_SIZE = 64
const SHOWN = 20
const LOOK_MS = 200
/** Milliseconds without progress after which the command gives up. */
const STUCK_MS = 15_000

/**
 * Cancels every open pass of an originator, including those admitted in the meantime, and waits until they have ended.
 *
 * @returns 0 if none is open; 1 if some still are, or the person declined
 * @throws CliFailure E042 (exit 2) if it would cancel several passes without a confirmation
 */
export async function cancelAll(bus: Bus, context: Context, given: CancelAllRequest): Promise<number> {
  const { terminal } = context
  const { from, to, session } = given
  const which = { from, ...(to && { to }), ...(session && { session }) }
  const open = await openOf(bus, given)
  const what = `${count(open.length, 'open pass', 'open passes')} ${whose(given)}`
  if (given.dryRun) {
    const ids = open.map(({ id }) => id)
    terminal.show({ ...which, dry_run: true, would_cancel: ids }, () => [`Would cancel ${what}.`, ...shownOf(open)].join('\n'))
    return 0
  }
  if (open.length > 1 && !given.yes) {
    const question = `Cancel ${what} and all their descendants?`
    if (!terminal.interactive) throw usage(`this command would cancel ${what}`, 'add --dry-run to list them, or --yes to cancel them')
    if (!(await confirmAction(question))) return DECLINED
  }
  const progress = terminal.progress()
  const ending = new Ending(bus, given, progress)
  const left = await ending.run(open).finally(() => progress.stop())
  const names = await readNameVerification(bus, context)
  const ended = ending.asked - left.length
  terminal.show({ ...which, ended, still_open: left.length, by: bus.identity, ...names }, () =>
    [
      ending.asked === 0
        ? `No pass ${whose(given)} is open.`
        : `Ended ${count(ended, 'pass', 'passes')} ${whose(given)}, as ${formatPerson(bus.identity, names)}.`,
      ...(left.length === 0
        ? []
        : [
            formatCommands(
              `${count(left.length, 'pass has', 'passes have')} not ended yet; run the command again, or check with passover doctor.`,
            ),
            ...shownOf(left),
          ]),
    ].join('\n'),
  )
  return left.length === 0 ? 0 : 1
}

/** Returns every open pass, from all pages. Those that no worker has yet come first, so that none gets them in the meantime. */
async function openOf(bus: Bus, { from, to, session }: Chosen): Promise<PassRow[]> {
  const found = new Map<string, PassRow>()
  for (const status of OPEN_STATUSES) {
    const filter = { originator: from, ...(to && { subagent: to }), ...(session && { session_id: session }) }
    for await (const { entries } of queryPages(bus, { ...filter, status, limit: MAX_PAGE }))
      for (const { row } of entries) if (isOpen(row)) found.set(keyText(row), row)
  }
  return [...found.values()]
}

class Ending {
  readonly #bus: Bus
  readonly #given: CancelAllRequest
  readonly #progress: Progress
  readonly #asked = new Set<string>()

  constructor(bus: Bus, given: CancelAllRequest, progress: Progress) {
    this.#bus = bus
    this.#given = given
    this.#progress = progress
  }

  /** Number of passes that were asked to end. */
  get asked(): number {
    return this.#asked.size
  }

  /** Returns the passes that are still open. */
  async run(open: PassRow[]): Promise<PassRow[]> {
    let left = open
    let moved = Date.now()
    while (left.length > 0 && Date.now() - moved < STUCK_MS) {
      const asked = await this.#ask(left)
      await new Promise<void>((again) => machineTiming.after(LOOK_MS, again))
      const now = await openOf(this.#bus, this.#given)
      if (asked > 0 || now.length < left.length) moved = Date.now()
      left = now
      this.#progress.say(`${this.asked - left.length} of ${count(this.asked, 'pass', 'passes')} ended`)
    }
    return left
  }

  /** Requests the cancellation of new passes and returns their number. */
  async #ask(rows: readonly PassRow[]): Promise<number> {
    const before = this.asked
    const fresh = rows.filter((row) => !this.#asked.has(keyText(row)))
    for (let at = 0; at < fresh.length; at += BATCH_SIZE) {
      await Promise.all(fresh.slice(at, at + BATCH_SIZE).map((row) => this.#askOne(row)))
      this.#progress.say(`requested the cancellation of ${this.asked - before} of ${count(fresh.length, 'pass', 'passes')}`)
    }
    return this.asked - before
  }

  /** Requests one cancellation; a failed one is tried again in the next round. Throws Failure E013 if this person may not cancel. */
  async #askOne({ originator, subagent, id }: PassRow): Promise<void> {
    const key = { originator, subagent, id }
    try {
      await publishCancel(this.#bus, { key }, this.#given.reason)
      this.#asked.add(keyText(key))
    } catch (error) {
      if (!(error instanceof Failure) || error.code === 'E013') throw error
    }
  }
}

function whose({ from, to, session }: Chosen): string {
  return `of ${from}${to === undefined ? '' : ` to ${to}`}${session === undefined ? '' : ` in session ${session}`}`
}

function shownOf(rows: readonly PassRow[]): string[] {
  const lines = rows.slice(0, SHOWN).map(({ id, subagent, status }) => `  ${id}  → ${subagent}  ${status}`)
  return rows.length > SHOWN ? [...lines, `  … and ${rows.length - SHOWN} more`] : lines
}
