import { resolve } from 'node:path'
import { ArchiveUnreadable, folderArchive } from '@passover/archive'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { archiveIdWindow, readIdWindow } from '../connection/id-window.js'
import { CliFailure, usage } from '../errors.js'
import { dateTime } from '../terminal/duration.js'
import { reportEverySecond } from '../terminal/progress.js'
import { count } from '../terminal/text.js'
import { entryText, type FindingEntry, faultLines } from './findings.js'
import { type Verdict, type VerifyOptions, verifyArchive } from './verify-archive.js'

export interface VerifyFlags {
  archive?: string
  save?: string
  pass?: string
  from?: string
  to?: string
  since?: number
  expect?: string
  idWindow?: number
  strict?: boolean
}

/** `passover verify`: returns exit code 0 if everything is consistent, else 1 and shows the first bad entry. */
export async function runVerify(context: Context, flags: VerifyFlags): Promise<number> {
  if (flags.archive !== undefined && (flags.pass !== undefined || flags.save !== undefined)) {
    throw usage('--archive reads only a folder: --pass and --save need a running installation')
  }
  if (flags.pass !== undefined && (flags.save !== undefined || flags.since !== undefined || flags.expect !== undefined)) {
    throw usage('--pass verifies a single pass: --save, --since and --expect apply to all stored data')
  }
  if (flags.save !== undefined && flags.since !== undefined)
    throw usage('--save and --since cannot be combined, because --save saves all data')
  if (flags.pass !== undefined) return verifyPass(context, { ...flags, id: flags.pass })
  const progress = context.terminal.progress()
  const onProgress = reportEverySecond(progress, 'checked')
  try {
    const options = { from: flags.since, expect: flags.expect, onProgress }
    const verdict =
      flags.archive === undefined
        ? await verifyInstallation(context, options, flags)
        : await verifyFolder(context, options, { ...flags, archive: flags.archive })
    progress.stop()
    refuseNothing(verdict, flags)
    return showVerdict(context, verdict, flags)
  } catch (error) {
    progress.stop()
    if (!(error instanceof ArchiveUnreadable)) throw error
    throw new CliFailure('E041', error.message, { hint: 'to save an archive: passover verify --save <folder>' })
  }
}

/** Fails if there was nothing to check, because success would be misleading. */
function refuseNothing({ ok, counts, segments }: Verdict, { archive, since }: VerifyFlags): void {
  if (!ok || counts.messages > 0 || segments > 0 || (archive === undefined && since === undefined)) return
  const where = archive ?? 'the installation'
  throw new CliFailure('E041', `nothing was verified: ${where} has no entries${since === undefined ? '' : ` from sequence ${since} on`}`, {
    hint: since === undefined ? 'to save an archive: passover verify --save <folder>' : 'start earlier: --since <sequence>',
  })
}

type Options = Omit<VerifyOptions, 'id_window_ms'>

async function verifyFolder(
  { directory, terminal }: Context,
  options: Options,
  { archive, idWindow }: VerifyFlags & { archive: string },
): Promise<Verdict> {
  const folder = resolve(directory, archive)
  return await verifyArchive(folderArchive(folder), { ...options, id_window_ms: await archiveIdWindow(terminal, folder, idWindow) })
}

async function verifyInstallation(context: Context, options: Options, { save, idWindow }: VerifyFlags): Promise<Verdict> {
  await using bus = await connectPerson(context)
  const judged = { ...options, id_window_ms: idWindow ?? (await readIdWindow(bus)).id_window_ms }
  const { verifyLive, verifyAndSave } = await import('./verify-live.js')
  if (save === undefined) return await verifyLive(bus, judged)
  const onUnsaved = (why: string) => {
    if (context.terminal.mode === 'human') context.terminal.note(`Nothing will be saved: ${why}.`)
  }
  return await verifyAndSave(bus, { ...judged, save: resolve(context.directory, save), onUnsaved })
}

/** Verifies one pass by its stored messages and those of its ancestors. */
async function verifyPass(context: Context, flags: VerifyFlags & { id: string }): Promise<number> {
  const { collectEvidence, verifyEntries, omissionText } = await import('./collect-pass.js')
  const { installationParts } = await import('./parts.js')
  await using bus = await connectPerson(context)
  const evidence = await collectEvidence(bus, { id: flags.id, from: flags.from, to: flags.to })
  for (const what of evidence.left_out) context.terminal.note(omissionText(what))
  return showVerdict(
    context,
    await verifyEntries(evidence, { id_window_ms: flags.idWindow ?? evidence.id_window_ms, parts: await installationParts(bus) }),
    flags,
  )
}

function showVerdict({ terminal }: Context, verdict: Verdict, { strict }: VerifyFlags): number {
  const ok = verdict.ok && !(strict && verdict.remarks > 0)
  const first = verdict.first ?? (strict ? verdict.remarked[0] : undefined)
  terminal.show({ ...verdict, ok, ...(first ? { first } : {}) }, () => verdictText({ ...verdict, ok, first }))
  return ok && verdict.unsaved === undefined ? 0 : 1
}

/** Describes the verdict for people. */
export function verdictText(verdict: Verdict): string {
  const { ok, first, faults, shown, remarks, untrusted, remarked, head, begins, index, unsaved } = verdict
  const lines = untrusted > 0 ? untrustedLines(verdict) : []
  if (!ok) lines.push(`✗ ${entryText(first as FindingEntry)}`)
  else lines.push(untrusted > 0 ? 'No other faults found.' : 'No faults found.')
  if (unsaved !== undefined) lines.push(`✗ Nothing was saved: ${unsaved}. When that has ended, save again.`)
  if (faults > 1)
    lines.push(`  ${count(faults, 'entry', 'entries')} with faults in total:`, ...faultLines(shown, faults).map((line) => `    ${line}`))
  if (remarks > untrusted) {
    lines.push(
      `! ${count(remarks - untrusted, 'entry', 'entries')} that readers ignore or read as an error (an invalid message was stored; --strict counts them as faults):`,
    )
    const others = remarked.filter(({ rule }) => rule !== 'trust')
    lines.push(...faultLines(others, remarks - untrusted).map((line) => `    ${line}`))
  }
  lines.push('', ...countLines(verdict))
  if (verdict.removed)
    lines.push(
      `${count(verdict.removed.segments, 'segment')} removed by retention, up to ${dateTime(verdict.removed.up_to)}: only their chain values are verified.${untoldText(verdict.removed)}`,
    )
  if (index === 'none') lines.push('The index of passes was not compared with the records: no audit service that is up to date answered.')
  if (begins)
    lines.push(`The archive begins with segment ${begins.k}; earlier segments are no longer stored. Its chain begins at ${begins.chain}.`)
  if (head)
    lines.push(
      `Chain at sequence ${head.sequence}: ${head.hash}`,
      'Keep this value elsewhere: --expect <value> later proves that no entry up to here was changed.',
    )
  return lines.join('\n')
}

/** Describes messages that no reader trusts, such as those that a client had the server publish. They come first, so that an attack is not overlooked. */
function untrustedLines({ untrusted, remarked }: Verdict): string[] {
  const entries = remarked.filter(({ rule }) => rule === 'trust').slice(0, 10)
  return [
    `! ${count(untrusted, 'message')} not trusted, each for the reason given. No reader uses them; --strict counts them as faults:`,
    ...entries.map((entry) => `    ${entryText(entry)}`),
    ...(untrusted > entries.length ? [`    … and ${untrusted - entries.length} more`] : []),
    '  If the server published it for a client: docs/architecture/isolation.md explains how to prevent this.',
  ]
}

function untoldText({ segments, untold = 0 }: NonNullable<Verdict['removed']>): string {
  if (untold === 0) return ''
  return ` ${untold === segments ? 'They have' : `${untold} of them have`} no removal event, because removals were not recorded at that time.`
}

function countLines({ counts, segments, parts, index }: Verdict): string[] {
  const rows: [number, string, string?][] = [
    [segments, 'segment checked against manifest, index and chain', 'segments checked against manifest, index and chain'],
    [counts.messages, 'entry', 'entries'],
    [counts.erased, 'erased entry (its digest is kept)', 'erased entries (their digests are kept)'],
    [counts.passes, 'pass', 'passes'],
    [counts.steps, 'step checked', 'steps checked'],
    [counts.returns, 'terminal return'],
    [counts.requests, 'request'],
    [counts.digests, 'request digest recomputed', 'request digests recomputed'],
    [counts.recomputed, 'policy decision recomputed', 'policy decisions recomputed'],
    [
      counts.as_recorded,
      'decision accepted as recorded (rates, time, approvals)',
      'decisions accepted as recorded (rates, time, approvals)',
    ],
    [counts.policies, 'policy version'],
    [counts.decisions, 'approval or application', 'approvals and applications'],
    [
      index === 'none' ? 0 : (index?.records ?? 0),
      'record compared with the index for filters and statistics',
      'records compared with the index for filters and statistics',
    ],
    [parts?.whole ?? 0, 'large part read and checked against its hash', 'large parts read and checked against their hashes'],
    [
      parts?.gone ?? 0,
      'large part deleted after its retention, or of an entry that was deleted during this check',
      'large parts deleted after their retention, or of entries that were deleted during this check',
    ],
    [parts?.elsewhere ?? 0, 'large part that is not available here', 'large parts that are not available here'],
  ]
  return rows
    .filter(([number]) => number > 0)
    .map(([number, one, many = `${one}s`]) => `  ${String(number).padStart(9)}  ${number === 1 ? one : many}`)
}
