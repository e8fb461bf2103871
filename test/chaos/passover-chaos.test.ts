import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ChaosReport } from '@passover/chaos'
import { expect, test } from 'vitest'

const COMMAND = fileURLToPath(new URL('../../packages/cli/bin/passover.js', import.meta.url))
const seed = Number(process.env.PASSOVER_SEED ?? Date.now() % 1_000_000)
/** A machine that runs other tests beside this is late; what is promised of a quiet one is for the published run. */
const SLACK = '30s'
/** CI's is two minutes long; beside it, and elsewhere, one. */
const MINUTES = { own: process.env.CI ? 2 : 1, loopback: 1 } as const
/**
 * What a run's own waits add up to, each of which may be needed on a busy machine: two minutes of load and 90 s until the servers have settled, 180 s for
 * the last answers, 40 s for the deleter, 150 s for the records, 300 s for passover verify, and a minute to start.
 */
const LONGEST_MS = 960_000

// Side by side: both wait most of the time, and what the other one takes of the machine is part of the trouble.
test.concurrent.each(['own', 'loopback'] as const)(
  `keeps every promise while faults are injected, network %s (PASSOVER_SEED=${seed})`,
  async (network) => {
    const dir = await mkdtemp(join(tmpdir(), 'passover-chaos-test-'))
    const { report, stderr } = await aValidRun(network, dir)
    console.log(
      `seed ${report.seed}, ${report.machine?.network}, ${report.seconds} s: ${JSON.stringify({ faults: report.faults, totals: report.verdict?.totals, P4: report.verdict?.promises.P4.counts })}`,
    )
    const { ok, failures, voided, verify } = report
    expect({ ok, failures, voided, faults: verify?.faults }, `${failures.join('; ')}\n${stderr}`).toEqual({
      ok: true,
      failures: [],
      voided: [],
      faults: [],
    })
    // What has the last word looked at all of it.
    expect(report.verify.counts.ended).toBe(report.verdict.totals.passes)
    expect(report.faults.seal).toBeGreaterThan(0)
    expect(report.verdict.promises.P4.counts['segments sealed']).toBeGreaterThan(0)
    expect(Object.values(report.verdict.promises).map(({ holds }) => holds)).toEqual([true, true, true, true, true])
    // It was no walk in the park, and most went well.
    expect(Object.keys(report.faults).length).toBeGreaterThanOrEqual(4)
    expect(report.verdict.totals.by_code.ok).toBeGreaterThan(report.verdict.totals.passes / 3)
    expect(watched(report)).toEqual(expect.arrayContaining(['dispatcher 1', 'worker 1', 'audit', 'alice', 'server n1']))
    expect(await readFile(report.report.markdown, 'utf8')).toContain('no violation')
    await rm(dir, { recursive: true, force: true })
  },
  2 * LONGEST_MS,
)

type Report = Omit<ChaosReport, 'report'> & { report: { markdown: string } }

/** A run in which the server lost acknowledged messages is inconclusive (decision 86): the test tries the next seed once. */
async function aValidRun(network: 'own' | 'loopback', dir: string): Promise<{ report: Report; stderr: string }> {
  const first = await chaos(network, dir, seed)
  if (!first.report.voided?.length) return first
  console.log(`seed ${seed} is inconclusive: ${first.report.voided.join('; ')}`)
  // What lost messages excuse is no process that crashed, no server that never settled, and no handler that went on.
  expect(first.report.failures, first.stderr).toEqual([])
  expect([first.report.verdict.promises.P3, first.report.verdict.promises.P5]).toMatchObject([{ holds: true }, { holds: true }])
  return chaos(network, dir, seed + 1)
}

async function chaos(network: 'own' | 'loopback', dir: string, of: number): Promise<{ report: Report; stderr: string }> {
  const minutes = String(MINUTES[network])
  // One of the two with each agent in an account of its own.
  const isolated = network === 'loopback' ? ['--isolated'] : []
  const wanted = ['--soak', '--minutes', minutes, '--seed', String(of), '--slack', SLACK, '--network', network, ...isolated]
  const { stdout, stderr } = await run(['chaos', ...wanted, '--report', join(dir, String(of)), '--json'])
  return { report: JSON.parse(stdout) as Report, stderr }
}

/** Of whom the soak mode has measures from first to last: of servers also connections, subscriptions, consumers and messages. */
function watched({ soak }: Pick<ChaosReport, 'soak'>): string[] {
  const rows = (soak?.lines ?? [])
    .join('\n')
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()))
  const isMeasured = (cell: string) => /^[\d.]+ → [\d.]+$/.test(cell)
  return rows.flatMap(([, who = '', , ...cells]) => {
    const [memory = '', descriptors = '', , , ...ofServers] = cells
    const wanted = who.startsWith('server ') ? [memory, descriptors, ...ofServers.slice(0, 4)] : [memory, descriptors]
    return wanted.every(isMeasured) ? [who] : []
  })
}

function run(args: string[]): Promise<{ stdout: string; stderr: string; code: number | null }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [COMMAND, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    child.once('error', reject)
    child.once('close', (code) => resolve({ stdout, stderr, code }))
  })
}
