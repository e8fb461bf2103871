import { resolve } from 'node:path'
import { ArchiveUnreadable, folderArchive } from '@passover/archive'
import type { ChangedDecision, FieldDifference } from '@passover/core'
import { askList, findPass, invalidPolicyError } from '@passover/operator'
import { type AnsweredPass, keyText } from '@passover/schemas'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { archiveIdWindow, readIdWindow } from '../connection/id-window.js'
import { CliFailure, ExitError, INTERRUPTED, usage } from '../errors.js'
import { findPolicyFile } from '../policy/find-file.js'
import { checkPolicyFile } from '../policy/read-file.js'
import { reportEverySecond, stdoutDrained } from '../terminal/progress.js'
import { count, oneLine } from '../terminal/text.js'
import { Playback, type PlaybackEntry, playbackEntries, playbackLine } from './playback.js'
import { type WhatIfCounts, type WhatIfOptions, whatIfArchive, whatIfLive } from './what-if.js'

export interface ReplayFlags {
  session?: string
  from?: string
  to?: string
  speed?: number
  step?: boolean
  whatIf?: string
  since?: number
  archive?: string
  limit: number
  idWindow?: number
  toPrefix?: string
  dryRun?: boolean
  yes?: boolean
  wait?: number
}

const MAX_SESSION_PASSES = 1_000

/** `passover replay`: plays back passes, tests a policy on them, or requests them again in another namespace. */
export async function runReplay(context: Context, flags: ReplayFlags, ids: readonly string[]): Promise<number> {
  if (flags.whatIf !== undefined && flags.toPrefix !== undefined) throw usage('--what-if and --to-prefix cannot be combined')
  if (flags.whatIf !== undefined) return replayWhatIf(context, { ...flags, whatIf: flags.whatIf })
  if (flags.archive !== undefined && flags.toPrefix !== undefined)
    throw usage('--to-prefix cannot be combined with --archive: it needs the data of an installation')
  if (ids.length === 0 && flags.session === undefined) throw usage('replay needs passes: ids, or --session <id>', 'passover replay <id>')
  if (flags.toPrefix === undefined) return replayTimeline(context, flags, ids)
  const { replayInto } = await import('./into-prefix.js')
  await using bus = await connectPerson(context)
  const passes = await chosen(context, bus, { flags, ids })
  return await replayInto(context, { bus, passes, ...flags, toPrefix: flags.toPrefix })
}

type Bus = Awaited<ReturnType<typeof connectPerson>>

interface Chosen {
  flags: ReplayFlags
  ids: readonly string[]
}

async function chosen({ terminal }: Context, bus: Bus, { flags: { session, from, to }, ids }: Chosen): Promise<AnsweredPass[]> {
  const named = await Promise.all(ids.map((id) => findPass(bus, { id, from, to }, { history: true })))
  if (session === undefined) return named
  const { passes, more } = await askList(bus, { session_id: session, limit: MAX_SESSION_PASSES })
  if (more)
    terminal.note(
      `Only the newest ${MAX_SESSION_PASSES} passes of the session are shown. To see all of them, read a saved archive (--archive).`,
    )
  if (passes.length === 0)
    throw new CliFailure('E041', `session ${session} has no passes`, { hint: '`passover list --json` shows the sessions' })
  const found: AnsweredPass[] = [...named]
  for (const { id, originator, subagent } of passes)
    found.push(await findPass(bus, { id, from: originator, to: subagent }, { history: true }))
  return found
}

async function replayTimeline(context: Context, flags: ReplayFlags, ids: readonly string[]): Promise<number> {
  const { terminal } = context
  if (flags.step && !terminal.interactive) throw usage('--step waits for a key: it needs a terminal', 'without a terminal, use --speed')
  if (flags.step) terminal.note('Press any key for the next entry, or q to stop.')
  if (flags.archive !== undefined) return await replayArchived(context, { ...flags, archive: flags.archive }, ids)
  await using bus = await connectPerson(context)
  const entries = playbackEntries(await chosen(context, bus, { flags, ids }))
  const several = new Set(entries.map(({ pass }) => pass)).size > 1 ? 'several' : 'one pass'
  if (terminal.mode === 'json') terminal.show(entries, () => '')
  else await createPlayback(context, flags, several).tell(entries)
  return 0
}

/** Plays back passes of a saved archive while reading it. */
async function replayArchived(context: Context, flags: ReplayFlags & { archive: string }, ids: readonly string[]): Promise<number> {
  const { terminal, directory } = context
  const { readArchivedPasses } = await import('./read-archive.js')
  const { PassIdResolver } = await import('./resolve-ids.js')
  const kept: PlaybackEntry[] = []
  const progress = terminal.progress()
  const folder = resolve(directory, flags.archive)
  const source = folderArchive(folder)
  const named = await unreadable(PassIdResolver.open(source, { ...flags, ids }))
  const teller = createPlayback(context, flags, flags.session === undefined && named.size === 1 ? 'one pass' : 'several')
  const wanted = { named, session: flags.session, id_window_ms: await unreadable(archiveIdWindow(terminal, folder, flags.idWindow)) }
  const { told } = await unreadable(
    readArchivedPasses(source, wanted, {
      onEntries: async (entries) => {
        // A spinner would mix with the printed lines.
        progress.stop()
        if (terminal.mode === 'json') kept.push(...entries)
        else if (!(await teller.tell(entries))) return false
        await stdoutDrained()
        return true
      },
      onProgress: reportEverySecond(progress, 'read'),
    }),
  ).finally(() => progress.stop())
  if (told === 0)
    throw new CliFailure('E041', `${flags.archive} does not contain these passes`, {
      hint: 'passover verify --archive <folder> shows its contents',
    })
  if (terminal.mode === 'json') terminal.show(kept, () => '')
  return 0
}

function createPlayback({ terminal }: Context, { step, speed }: ReplayFlags, several: 'one pass' | 'several'): Playback {
  const wait = (ms: number) => new Promise<void>((done) => setTimeout(done, ms))
  const pace = { wait, ...(step ? { step: anyKey } : {}), ...(speed === undefined ? {} : { speed }) }
  let begun: number | undefined
  return new Playback(pace, (entry) => {
    begun ??= entry.time
    const since = begun
    terminal.stream(entry, () => playbackLine(entry, { begun: since, several }))
  })
}

/** Waits for a key. Any key continues, Ctrl-D and q stop, Ctrl-C interrupts. */
async function anyKey(): Promise<boolean> {
  const { stdin } = process
  const key = await new Promise<string>((done) => {
    stdin.setRawMode(true)
    stdin.resume()
    stdin.once('data', (bytes: Buffer) => {
      stdin.setRawMode(false)
      stdin.pause()
      done(bytes.toString())
    })
  })
  if (key === '\u0003') throw new ExitError(INTERRUPTED)
  return key !== '\u0004' && key !== 'q'
}

async function replayWhatIf(context: Context, flags: ReplayFlags & { whatIf: string }): Promise<number> {
  const { terminal, directory } = context
  const document = await policyIn(context, flags.whatIf)
  const kept: ChangedDecision[] = []
  const progress = terminal.progress()
  const options = {
    document,
    session: flags.session,
    since: flags.since === undefined ? undefined : Date.now() - flags.since,
    onOtherwise: (found: ChangedDecision) => {
      if (terminal.mode === 'jsonl') terminal.stream(found, () => undefined)
      else if (kept.length < flags.limit) kept.push(found)
    },
    onProgress: reportEverySecond(progress, 'read'),
    onSegment: stdoutDrained,
  }
  const folder = flags.archive === undefined ? undefined : resolve(directory, flags.archive)
  const counts = await counted(context, options, { folder, idWindow: flags.idWindow }).finally(() => progress.stop())
  if (terminal.mode === 'jsonl') return 0
  terminal.show({ ...counts, differences: kept, left_out: counts.otherwise - kept.length }, () => whatIfText(counts, kept))
  return 0
}

interface Where {
  folder: string | undefined
  idWindow: number | undefined
}

async function counted(context: Context, options: Omit<WhatIfOptions, 'id_window_ms'>, { folder, idWindow }: Where): Promise<WhatIfCounts> {
  if (folder === undefined) {
    await using bus = await connectPerson(context)
    return await whatIfLive(bus, { ...options, id_window_ms: idWindow ?? (await readIdWindow(bus)).id_window_ms })
  }
  const id_window_ms = await unreadable(archiveIdWindow(context.terminal, folder, idWindow))
  return await unreadable(whatIfArchive(folderArchive(folder), { ...options, id_window_ms }))
}

function unreadable<T>(reading: Promise<T>): Promise<T> {
  return reading.catch((error: unknown) => {
    if (!(error instanceof ArchiveUnreadable)) throw error
    throw new CliFailure('E041', error.message, { hint: 'to save an archive: passover verify --save <folder>' })
  })
}

async function policyIn({ directory, env }: Context, path: string) {
  const file = findPolicyFile({ directory, path, env })
  if (!file) throw usage(`--what-if: there is no file ${path}`)
  // The agents that a policy names need not be registered to test the policy.
  const { document, faults } = await checkPolicyFile(file, undefined)
  if (!document) throw invalidPolicyError(file.shown, faults)
  return document
}

/** Describes the differences for people. */
export function whatIfText(counts: WhatIfCounts, kept: readonly ChangedDecision[]): string {
  const { decided, otherwise, same, taken, kinds } = counts
  const lines = [
    `${count(decided, 'request')} evaluated again: ${otherwise} with a different decision, ${same} with the same, ${taken} not evaluated (decided by a limit, the time or a person).`,
    ...Object.entries(kinds)
      .sort(([, one], [, other]) => other - one)
      .map(([kind, number]) => `  ${String(number).padStart(7)}  ${kind}`),
  ]
  for (const { key, before, after, why, differences } of kept) {
    lines.push(
      '',
      `${oneLine(keyText(key))}  ${before === after ? `${before}, with other settings` : `${before} → ${after}`}${why ? `: ${oneLine(why)}` : ''}`,
    )
    lines.push(...differences.map((difference) => `    ${differenceText(difference, { before, after })}`))
  }
  if (otherwise > kept.length) lines.push('', `${otherwise - kept.length} more are not shown: raise --limit, or use --jsonl for all.`)
  return lines.join('\n')
}

function differenceText({ field, before, after, level, path }: FieldDifference, verdict: { before: string; after: string }): string {
  const where = path ?? level
  return `${field}: ${valueText(before, verdict.before)} → ${valueText(after, verdict.after)}${where ? `  (${where})` : ''}`
}

/** Formats a value. For a field that caused a refusal, the verdict takes the place of the value. */
function valueText(value: unknown, verdict: string): string {
  if (value !== verdict) return JSON.stringify(value) ?? 'absent'
  return /^E\d/.test(verdict) ? `refused (${verdict})` : verdict
}
