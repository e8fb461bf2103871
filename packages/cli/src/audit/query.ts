import { queryPages } from '@passover/operator'
import { DEFAULT_PAGE, MAX_PAGE, type QueriedPass } from '@passover/schemas'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { noteUnknownPerson } from '../doctor/audit.js'
import { renderPassRows } from '../render/pass-rows.js'
import { dateTime } from '../terminal/duration.js'
import { count } from '../terminal/text.js'
import { type FilterFlags, filterFromFlags } from './filter-options.js'

export interface QueryFlags extends FilterFlags {
  text?: string
  limit: number
  cursor?: string
  all?: true
}

/** Shows the matching passes, newest first. If there may be more, prints how to continue. */
export async function runQuery(context: Context, flags: QueryFlags): Promise<number> {
  const { terminal } = context
  await using bus = await connectPerson(context)
  const wanted = flags.all ? Number.POSITIVE_INFINITY : flags.limit
  const progress = terminal.progress()
  const found: QueriedPass[] = []
  let shown = 0
  let end: { cursor?: string | undefined; complete: boolean } = { complete: true }
  const limit = Math.min(wanted, flags.all || flags.text ? MAX_PAGE : Math.max(DEFAULT_PAGE, flags.limit), MAX_PAGE)
  const query = {
    ...filterFromFlags(flags),
    ...(flags.text ? { text: flags.text } : {}),
    ...(flags.cursor ? { cursor: flags.cursor } : {}),
    limit,
  }
  const begun = Date.now()
  for await (const page of queryPages(bus, query)) {
    const entries = page.entries.slice(0, wanted - shown)
    shown += entries.length
    if (terminal.mode === 'jsonl') for (const entry of entries) terminal.stream(entry, () => undefined)
    else found.push(...entries)
    end = { cursor: page.cursor, complete: page.complete }
    if (shown >= wanted) break
    if (page.cursor && Date.now() - begun > 1_000)
      progress.say(
        `${count(shown, 'pass', 'passes')} found${page.scanned?.since ? `, searched back to ${dateTime(page.scanned.since)}` : ''}`,
      )
  }
  progress.stop()
  if (terminal.mode !== 'jsonl') show(context, found, bus.now())
  if (shown === 0) await noteUnknownPerson(bus, terminal)
  if (end.cursor && !flags.all) terminal.note(`There may be more: continue with --cursor ${end.cursor}, or use --all.`)
  if (!end.complete)
    terminal.note('The audit service is still loading its records after a start, so some may be missing; try again in a moment.')
  return 0
}

function show({ terminal }: Context, found: QueriedPass[], now: number): void {
  terminal.show(found, () =>
    found.length === 0
      ? 'No passes.'
      : renderPassRows(
          found.map(({ row }) => row),
          now,
          terminal,
        ),
  )
}
