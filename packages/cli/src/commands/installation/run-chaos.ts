import { randomInt } from 'node:crypto'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { tooFewFiles } from '@passover/bus/entry'
import {
  CHAOS_DEFAULTS,
  type ChaosOptions,
  type ChaosReport,
  countsText,
  FAULTS,
  type FaultName,
  outcomeText,
  PROMISE_TEXT,
  runChaos,
  verdictText,
  verifyText,
  writeReport,
} from '@passover/chaos'
import type { Context } from '../../connection/context.js'
import { CliFailure, usage } from '../../errors.js'
import { COMMAND_FILE, VERSION } from '../../package-info.js'
import { stopSignals } from '../../terminal/stop-signals.js'
import type { Terminal } from '../../terminal/terminal.js'

export interface ChaosFlags {
  minutes: number
  seed?: number
  faults?: string
  nodes: '1' | '3'
  rate: number
  soak?: boolean
  isolated?: boolean
  network: 'own' | 'loopback'
  slack?: number
  idWindow?: number
  report?: string
}

/** Milliseconds between progress messages: `live` where a message replaces the one before, `lines` where each is a new line. */
const PROGRESS_INTERVAL_MS = { live: 2_000, lines: 30_000 }
/** Minimum id window. Services refuse shorter ones. */
const MIN_ID_WINDOW_MS = 1_000
const CLI_COMMAND = [process.execPath, COMMAND_FILE]

/**
 * Runs the chaos test, writes the report and prints the verdict. Returns exit code 1 if a promise was broken, or if the run failed or
 * proves nothing.
 */
export async function runChaosCommand({ terminal, directory }: Context, flags: ChaosFlags): Promise<number> {
  const faults = faultsOf(flags.faults)
  // Checked first: with too few file descriptors, servers, workers and proxies would each fail differently.
  const few = tooFewFiles()
  if (few) throw new CliFailure('E030', few.message, { hint: few.hint })
  if (flags.idWindow !== undefined && flags.idWindow < MIN_ID_WINDOW_MS) throw usage('--id-window takes at least 1s')
  const dir = flags.report ? resolve(directory, flags.report) : await mkdtemp(join(tmpdir(), 'passover-chaos-'))
  await mkdir(dir, { recursive: true }).catch((error: Error) => {
    throw usage(`--report: ${error.message}`)
  })
  const options: ChaosOptions = {
    ...CHAOS_DEFAULTS,
    seed: flags.seed ?? randomInt(1, 1_000_000),
    length_ms: flags.minutes * 60_000,
    faults,
    nodes: flags.nodes === '1' ? 1 : 3,
    rate: flags.rate,
    soak: flags.soak === true,
    isolated: flags.isolated === true,
    network: flags.network,
    id_window_ms: flags.idWindow ?? CHAOS_DEFAULTS.id_window_ms,
    slack_ms: flags.slack ?? 0,
    dir: join(dir, 'run'),
  }
  const report = await carriedOut(terminal, options)
  const paths = await writeReport(dir, report)
  // The files of a failed run are kept, because they show the cause.
  if (report.ok) await rm(options.dir, { recursive: true, force: true })
  terminal.show({ ...report, report: paths }, () => summary(report, { terminal, paths, kept: report.ok ? undefined : options.dir }))
  return report.ok ? 0 : 1
}

async function carriedOut(terminal: Terminal, options: ChaosOptions): Promise<ChaosReport> {
  using signals = stopSignals(() => terminal.note('Stopped; nothing was checked.'))
  const progress = terminal.progress()
  terminal.note(
    `Seed ${options.seed}, ${options.length_ms / 60_000} min, servers: ${options.nodes}, kinds of faults: ${options.faults.length}.`,
  )
  void signals.first.then(() =>
    terminal.note('Ending load and faults, then checking the requests made so far. Press Ctrl-C again to stop immediately.'),
  )
  try {
    return await runChaos(options, {
      say: (text) => progress.say(text),
      say_every_ms: progress.live ? PROGRESS_INTERVAL_MS.live : PROGRESS_INTERVAL_MS.lines,
      stop: signals.signal,
      passover: VERSION,
      command: CLI_COMMAND,
    })
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new CliFailure('E011', `the run failed: ${why.split('\n')[0]}`, { hint: `its data is in ${options.dir}`, exit: 1 })
  } finally {
    progress.stop()
  }
}

function faultsOf(given: string | undefined): readonly FaultName[] {
  if (given === undefined) return FAULTS
  const names = given.split(',').map((name) => name.trim())
  const unknown = names.find((name) => !(FAULTS as readonly string[]).includes(name))
  if (unknown !== undefined) throw usage(`--faults does not accept "${unknown}"`, `use one or more of: ${FAULTS.join(', ')}`)
  return FAULTS.filter((fault) => names.includes(fault))
}

interface Shown {
  terminal: Terminal
  paths: { markdown: string }
  kept: string | undefined
}

function summary(report: ChaosReport, { terminal, paths, kept }: Shown): string {
  const { green, red, dim, bold } = terminal.colors
  const { verdict } = report
  const promises = Object.entries(verdict.promises).flatMap(([name, found]) => [
    `${found.holds ? green('✓') : red('✗')} ${bold(name)} ${verdictText(found)}  ${PROMISE_TEXT[name as keyof typeof PROMISE_TEXT]}`,
    dim(`    ${countsText(found.counts)}`),
    ...found.violations.slice(0, 5).map((what) => red(`    ${what}`)),
  ])
  return [
    ...promises,
    '',
    `${verdict.totals.passes} passes (${countsText(verdict.totals.by_code)})`,
    `Faults: ${countsText(report.faults)}`,
    `${report.verify.ok ? green('✓') : red('✗')} passover verify: ${verifyText(report.verify)}`,
    ...report.failures.map((what) => red(`✗ ${what}`)),
    ...report.voided.map((what) => red(`✗ the run is inconclusive: ${what}`)),
    ...report.left_out.map((what) => dim(`skipped: ${what}`)),
    `${report.ok ? green('No violation') : red(outcomeText(report))} in ${report.seconds} s, seed ${report.seed}. Report: ${paths.markdown}`,
    ...(kept ? [`Data of the run: ${kept}`] : []),
    dim(`To repeat it: ${report.again}`),
  ].join('\n')
}
