import { setTimeout as pause } from 'node:timers/promises'
import type { Bus } from '@passover/bus'
import { type AgentLine, askList, askStats, readAgents } from '@passover/operator'
import type { PassRow } from '@passover/schemas'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { elapsed } from '../render/pass-rows.js'
import { renderTable } from '../render/table.js'
import { clockTime, duration } from '../terminal/duration.js'
import { stopSignals } from '../terminal/stop-signals.js'
import type { Terminal } from '../terminal/terminal.js'
import { openScreen } from '../terminal/writer.js'

/** State of the system at one refresh. */
export interface TopSnapshot {
  /** Server time in milliseconds. */
  time: number
  /** Number of passes that wait for a worker. */
  queued: number
  /** Number of passes that a worker has. */
  running: number
  /** Number of passes that are not admitted yet, or wait for a person. */
  held: number
  /** Statistics of passes requested in the last minute. */
  last_minute: { passes: number; p50_ms?: number; p99_ms?: number }
  /** Open passes with the longest duration. */
  slowest: (Pick<PassRow, 'id' | 'originator' | 'subagent' | 'status'> & { lasted_ms: number })[]
  agents: Pick<AgentLine, 'name' | 'up' | 'busy' | 'places' | 'queued' | 'running' | 'waiting'>[]
}

const MINUTE_MS = 60_000
const SLOWEST_SHOWN = 5
/** Maximum number of open passes, newest first, among which the slowest are searched. */
const MAX_OPEN_PASSES = 1_000

/** Shows activity until Ctrl-C; with --json, or without a terminal and --jsonl, only once. Exit code 5 if the server is unreachable at the start. */
export async function runTop(context: Context, { interval_ms, once }: { interval_ms: number; once: boolean }): Promise<number> {
  const { terminal, env } = context
  await using bus = await connectPerson(context)
  const live = terminal.mode === 'human' && process.stdout.isTTY && env.TERM !== 'dumb'
  if (once || terminal.mode === 'json' || (terminal.mode === 'human' && !live)) {
    const look = await takeSnapshot(bus)
    terminal.show(look, () => renderTop(look, terminal))
    return 0
  }
  using signals = stopSignals(() => {})
  using screen = live ? openScreen() : undefined
  let text = ''
  while (!signals.signal.aborted) {
    try {
      const look = await takeSnapshot(bus)
      text = renderTop(look, { colors: terminal.colors, columns: process.stdout.columns })
      if (screen) screen.draw(text)
      else terminal.stream(look, () => undefined)
    } catch (error) {
      // The server may be back at the next refresh. Until then the last view remains, with the error and its time.
      const why = error instanceof Error ? error.message : String(error)
      screen?.draw(`${text}\n\n${terminal.colors.red('✗')} ${clockTime(Date.now())} ${why}`)
    }
    await pause(interval_ms, undefined, { signal: signals.signal }).catch(() => undefined)
  }
  return 0
}

async function takeSnapshot(bus: Bus): Promise<TopSnapshot> {
  const time = bus.now()
  const [agents, stats, open] = await Promise.all([
    readAgents(bus),
    askStats(bus, { from: Math.round(time) - MINUTE_MS }),
    askList(bus, { limit: MAX_OPEN_PASSES, status: 'waiting_for_return' }),
  ])
  const sum = (field: 'queued' | 'running' | 'waiting') => agents.reduce((total, agent) => total + agent[field], 0)
  const { p50, p99 } = stats.wall_ms
  return {
    time,
    queued: sum('queued'),
    running: sum('running'),
    held: sum('waiting'),
    last_minute: { passes: stats.passes, ...(p50 === undefined ? {} : { p50_ms: p50 }), ...(p99 === undefined ? {} : { p99_ms: p99 }) },
    slowest: open.passes
      .map(({ id, originator, subagent, status, created_at }) => ({
        id,
        originator,
        subagent,
        status,
        lasted_ms: elapsed({ created_at }, time),
      }))
      .sort((a, b) => b.lasted_ms - a.lasted_ms)
      .slice(0, SLOWEST_SHOWN),
    agents: agents.map(({ name, up, busy, places, queued, running, waiting }) => ({ name, up, busy, places, queued, running, waiting })),
  }
}

type View = Pick<Terminal, 'colors' | 'columns'>

/** Renders the view. Lines fit into 60 columns if names and ids are shortened. */
function renderTop(snapshot: TopSnapshot, view: View): string {
  const { bold, dim } = view.colors
  const { passes, p50_ms, p99_ms } = snapshot.last_minute
  const times = p50_ms === undefined || p99_ms === undefined ? '' : `, p50 ${duration(p50_ms)}, p99 ${duration(p99_ms)}`
  const sections = [
    [
      `${bold(String(snapshot.queued))} queued  ${bold(String(snapshot.running))} running  ${bold(String(snapshot.held))} held  ${dim(clockTime(snapshot.time).slice(0, 8))}`,
      `${passes} in the last minute${times}`,
    ].join('\n'),
    snapshot.agents.length === 0 ? 'No agents. Start one: passover work <name> -- <command>' : agentsTable(snapshot, view),
    ...(snapshot.slowest.length === 0 ? [] : [slowestTable(snapshot, view)]),
  ]
  return sections.join('\n\n')
}

function agentsTable({ agents }: TopSnapshot, view: View): string {
  return renderTable<TopSnapshot['agents'][number]>(
    [
      { head: 'AGENT', cell: ({ name }) => name, shrinks: true },
      { head: 'UP', cell: ({ up }) => String(up) },
      { head: 'BUSY', cell: ({ busy, places }) => (places > 0 ? `${busy}/${places}` : '') },
      { head: 'QUEUED', cell: ({ queued }) => String(queued) },
      { head: 'RUNNING', cell: ({ running }) => String(running) },
      { head: 'HELD', cell: ({ waiting }) => String(waiting) },
    ],
    agents,
    view,
  )
}

function slowestTable({ slowest }: TopSnapshot, view: View): string {
  return renderTable<TopSnapshot['slowest'][number]>(
    [
      { head: 'OPEN FOR', cell: ({ lasted_ms }) => duration(lasted_ms) },
      { head: 'PASS', cell: ({ id }) => id, shrinks: true },
      { head: 'FROM', cell: ({ originator }) => originator, shrinks: true },
      { head: 'TO', cell: ({ subagent }) => subagent, shrinks: true },
    ],
    slowest,
    view,
  )
}
