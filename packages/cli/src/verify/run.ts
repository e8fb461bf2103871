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
    throw usage('--archive reads a folder alone: --pass and --save are for a running installation')
  }
  if (flags.pass !== undefined && (flags.save !== undefined || flags.since !== undefined || flags.expect !== undefined)) {
    throw usage('--pass looks at one pass alone: --save, --since and --expect are about everything that is stored')
  }
  if (flags.save !== undefined && flags.since !== undefined) throw usage('--save keeps everything: it does not go with --since')
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
    throw new CliFailure('E041', error.message, { hint: 'an archive is saved by: passover verify --save <folder>' })
  }
}

/** Fails if there was nothing to check, because success would be misleading. */
function refuseNothing({ ok, counts, segments }: Verdict, { archive, since }: VerifyFlags): void {
  if (!ok || counts.messages > 0 || segments > 0 || (archive === undefined && since === undefined)) return
  const where = archive ?? 'the installation'
  throw new CliFailure('E041', `nothing was checked: ${where} holds no entries${since === undefined ? '' : ` from ${since} on`}`, {
    hint: since === undefined ? 'an archive is saved by: passover verify --save <folder>' : 'begin earlier: --since <sequence>',
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
  else lines.push(untrusted > 0 ? 'Everything else holds together.' : 'Everything holds together.')
  if (unsaved !== undefined) lines.push(`✗ Nothing was saved: ${unsaved}. Save it again once that is done.`)
  if (faults > 1)
    lines.push(`  ${count(faults, 'entry is', 'entries are')} bad in all:`, ...faultLines(shown, faults).map((line) => `    ${line}`))
  if (remarks > untrusted) {
    lines.push(
      `! ${count(remarks - untrusted, 'entry', 'entries')} that readers pass over or read as an error (they are stored as they were made; --strict counts them):`,
    )
    const others = remarked.filter(({ rule }) => rule !== 'trust')
    lines.push(...faultLines(others, remarks - untrusted).map((line) => `    ${line}`))
  }
  lines.push('', ...countLines(verdict))
  if (verdict.removed)
    lines.push(
      `${count(verdict.removed.segments, 'segment')} removed by retention, up to ${dateTime(verdict.removed.up_to)}: only the chain goes through them.${untoldText(verdict.removed)}`,
    )
  if (index === 'none') lines.push('The index of passes was not compared with the records: no audit answered that is up to date.')
  if (begins)
    lines.push(`The archive begins with segment ${begins.k}: what was before it is kept no longer; its chain begins at ${begins.chain}.`)
  if (head)
    lines.push(
      `Chain at sequence ${head.sequence}: ${head.hash}`,
      'Keep this value elsewhere: --expect <value> proves later that all up to here is still the same.',
    )
  return lines.join('\n')
}

/** Describes messages that a client had the server publish. They come first, so that an attack is not overlooked. */
function untrustedLines({ untrusted, remarked }: Verdict): string[] {
  const entries = remarked.filter(({ rule }) => rule === 'trust').slice(0, 10)
  return [
    `! ${count(untrusted, 'message')} not believed: a client had the server publish what it may not publish itself. No reader uses them; --strict makes this a failure:`,
    ...entries.map((entry) => `    ${entryText(entry)}`),
    ...(untrusted > entries.length ? [`    … and ${untrusted - entries.length} more`] : []),
    '  docs/architecture/isolation.md says how to prevent it.',
  ]
}

function untoldText({ segments, untold = 0 }: NonNullable<Verdict['removed']>): string {
  if (untold === 0) return ''
  return ` Of ${untold === segments ? 'them' : `${untold} of them`} no event tells: removals were not told yet.`
}

function countLines({ counts, segments, parts, index }: Verdict): string[] {
  const rows: [number, string, string?][] = [
    [segments, 'segment held against manifest, index and chain', 'segments held against manifest, index and chain'],
    [counts.messages, 'entry', 'entries'],
    [counts.erased, 'erased entry (its digest is kept)', 'erased entries (their digests are kept)'],
    [counts.passes, 'pass', 'passes'],
    [counts.steps, 'step folded', 'steps folded'],
    [counts.returns, 'terminal return'],
    [counts.requests, 'request'],
    [counts.digests, 'request digest recomputed', 'request digests recomputed'],
    [counts.recomputed, 'decision of policy recomputed', 'decisions of policy recomputed'],
    [counts.as_recorded, 'decision taken as recorded (rates, time, approvals)', 'decisions taken as recorded (rates, time, approvals)'],
    [counts.policies, 'version of the policy', 'versions of the policy'],
    [counts.decisions, 'approval or application', 'approvals and applications'],
    [
      index === 'none' ? 0 : (index?.records ?? 0),
      'record compared with the index for filters and statistics',
      'records compared with the index for filters and statistics',
    ],
    [parts?.whole ?? 0, 'large part read again and held against its hash', 'large parts read again and held against their hashes'],
    [
      parts?.gone ?? 0,
      'large part that is gone, as old as it had to be kept or of an entry that left meanwhile',
      'large parts that are gone, as old as they had to be kept or of entries that left meanwhile',
    ],
    [parts?.elsewhere ?? 0, 'large part that is not to be had here', 'large parts that are not to be had here'],
  ]
  return rows
    .filter(([number]) => number > 0)
    .map(([number, one, many = `${one}s`]) => `  ${String(number).padStart(9)}  ${number === 1 ? one : many}`)
}
