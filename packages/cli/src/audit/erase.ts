import type { Bus } from '@passover/bus'
import { askCustody, publishCustodyEvent } from '@passover/operator'
import type { CustodyAnswer, CustodyErasure } from '@passover/schemas'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { formatPerson } from '../connection/verified-names.js'
import { CliFailure, DECLINED, usage } from '../errors.js'
import { confirmAction } from '../input/confirm.js'
import { renderTable } from '../render/table.js'
import { dateTime } from '../terminal/duration.js'
import { count, formatCommands } from '../terminal/text.js'

export interface EraseFlags {
  session?: string
  originator?: string
  reason?: string
  yes?: true
}

type Preview = NonNullable<Extract<CustodyAnswer, { ok: true }>['preview']>

/** Longest wait for an erasure that can be done at once, in ms. */
const COMPLETION_TIMEOUT_MS = 20_000
const POLL_INTERVAL_MS = 300
const MAX_NAMED_PASSES = 10
const NOT_REACHED = 'Not erased: exports, saved archives and evidence bundles, and data that agents keep themselves.'

/** Erases a session, or lists the erasures if none is named. Throws CliFailure E041 if nothing is stored of it, E042 if passes are open or held. */
export async function runErase(context: Context, { session, originator, reason, yes }: EraseFlags): Promise<number> {
  await using bus = await connectPerson(context)
  if (session === undefined) return await showErasures(context, bus)
  if (reason === undefined) throw usage('give a reason: --reason "…"')
  const { preview } = await askCustody(bus, { session, ...(originator !== undefined && { originator }) })
  if (!preview) throw new CliFailure('E040', 'the audit service does not report what the erasure would remove', { hint: 'try again' })
  refuse({ session, originator }, preview)
  if (!yes) {
    if (!context.terminal.interactive) throw usage(`this command would erase ${previewText(preview)}`, 'to erase it, add --yes')
    context.terminal.note(NOT_REACHED)
    if (
      !(await confirmAction(
        `Erase ${previewText(preview)} of session ${session}${whoseText(originator ?? preview.originators[0])}? This cannot be undone.`,
      ))
    )
      return DECLINED
  }
  const [only] = preview.originators
  const erase = await publishCustodyEvent(bus, { kind: 'erase', session, originator: originator ?? only, reason })
  return told(context, await ended(bus, erase), preview)
}

function refuse({ session, originator }: { session: string; originator: string | undefined }, preview: Preview): void {
  const { originators, passes, open, held } = preview
  if (originator === undefined && originators.length > 1) {
    const names =
      originators.length > MAX_NAMED_PASSES
        ? [...originators.slice(0, MAX_NAMED_PASSES), `${originators.length - MAX_NAMED_PASSES} more`]
        : originators
    throw usage(`${names.join(', ')} each have a session named ${session}`, 'name the originator of the session: --originator <agent>')
  }
  if (held.length > 0) {
    const holds = held.map((hold) => `hold ${hold}`).join(', ')
    throw usage(`session ${session} is under legal hold (${holds}) and cannot be erased`, `passover audit hold remove ${held[0]}`)
  }
  if (open.length > 0) {
    const shown = open.slice(0, 5).join(', ')
    const many = count(open.length, 'pass', 'passes')
    throw usage(
      `session ${session} has ${many} still open: ${shown}`,
      'wait until they end, cancel them, or decide the pending items: passover show <id>',
    )
  }
  if (passes === 0)
    throw new CliFailure('E041', `no data is stored for session ${session}${whoseText(originator)}`, {
      hint: 'see: passover list --session <id>',
    })
}

function whoseText(originator: string | undefined): string {
  return originator === undefined ? '' : ` of ${originator}`
}

function previewText({ passes, entries, segments, parts }: Preview): string {
  const more = [
    count(entries, 'message'),
    ...(segments > 0 ? [`${count(segments, 'segment')} of the archive`] : []),
    ...(parts > 0 ? [count(parts, 'large part')] : []),
  ]
  return `${count(passes, 'pass', 'passes')} (${more.join(', ')})`
}

/** Waits for the erasure to finish. Returns it as `pending` if that takes too long, or `undefined` if the audit service has not read it. */
async function ended(bus: Bus, erase: number): Promise<CustodyErasure | undefined> {
  for (let waited = 0; ; waited += POLL_INTERVAL_MS) {
    const found = (await askCustody(bus)).erasures.find((one) => one.erase === erase)
    if (found?.state !== 'pending' || waited >= COMPLETION_TIMEOUT_MS) return found
    await new Promise((done) => setTimeout(done, POLL_INTERVAL_MS))
  }
}

function told({ terminal }: Context, erasure: CustodyErasure | undefined, preview: Preview): number {
  if (!erasure)
    throw new CliFailure('E040', 'the audit service has not processed the erasure yet', { hint: 'to see its state: passover audit erase' })
  terminal.show(erasure, () => {
    if (erasure.state === 'refused') return `Not erased: ${erasure.why}.`
    if (erasure.state === 'done')
      return `Erased ${previewText({ ...preview, ...erasure })}; tombstone of erasure ${erasure.erase}, requested by ${formatPerson(erasure.by, erasure)}.\n${NOT_REACHED}`
    return formatCommands(
      `Erasure ${erasure.erase} is stored but not done yet: it starts two id windows after the session's last message, or it failed and is retried (passover doctor shows why). To see its state: passover audit erase`,
    )
  })
  return erasure.state === 'refused' ? 1 : 0
}

async function showErasures({ terminal }: Context, bus: Bus): Promise<number> {
  const { erasures } = await askCustody(bus)
  if (terminal.mode === 'jsonl') for (const one of erasures) terminal.stream(one, () => undefined)
  else terminal.show(erasures, () => (erasures.length === 0 ? 'No erasures.' : erasuresText(erasures, terminal)))
  return 0
}

function erasuresText(erasures: CustodyErasure[], terminal: Context['terminal']): string {
  return renderTable(
    [
      { head: 'ERASURE', cell: ({ erase }) => String(erase) },
      { head: 'SESSION', cell: ({ session }) => session, shrinks: true },
      { head: 'STATE', cell: ({ state, why }) => (why === undefined ? state : `${state}: ${why}`), shrinks: true },
      { head: 'ORIGINATOR', cell: ({ originator }) => originator ?? '' },
      { head: 'PASSES', cell: ({ passes }) => String(passes) },
      { head: 'BY', cell: (erasure) => formatPerson(erasure.by, erasure) },
      { head: 'WHEN', cell: ({ time }) => dateTime(time) },
      { head: 'REASON', cell: ({ reason }) => reason, shrinks: true },
    ],
    erasures,
    terminal,
  )
}
