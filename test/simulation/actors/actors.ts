import { deletePass, startAudit } from '@passover/audit'
import { encode, encodeHeaders, PolicyStore } from '@passover/bus'
import type { Clock } from '@passover/core'
import { startDispatcher } from '@passover/dispatcher'
import { passOverPreferences, sha256 } from '@passover/schemas'
import type { Agent, Handler } from '@passover/sdk'
import { createAgent } from '@passover/sdk/internal'
import type { Logger } from 'pino'
import type { Book } from '../checks/pass-book.js'
import { OTHER_REASON, optionsOf, type PassPlan } from '../plans/plan.js'
import type { SimBus } from '../server/bus.js'
import type { Simulation } from '../simulation.js'
import type { Process } from '../world.js'
import { APPROVAL_MS } from './caller-answers.js'
import { performer } from './handlers.js'

export const LEASE_MS = 1_000
/** Until when an originator that asks for delivery may take a return. */
export const RETURN_DEADLINE_MS = 24_000
/** How long the audit keeps a dead letter that nobody settles. */
const DEAD_LETTERS_MS = 25_000

const DEFAULTS = {
  lease_ms: LEASE_MS,
  max_attempts: 3,
  approval_expires_ms: APPROVAL_MS,
  timeout_ms: 6_000,
  return_deadline_ms: RETURN_DEADLINE_MS,
}
const POLICY = passOverPreferences.parse({ defaults: DEFAULTS })

function clockOf(bus: SimBus): Clock {
  return { now: () => bus.now(), monotonic: bus.timing.monotonic, after: bus.timing.after }
}

function randomOf(process: Process) {
  return { bytes: (length: number) => process.dice.bytes(length) }
}

/** A logger that keeps what is said to be wrong. */
function logOf(simulation: Simulation, process: Process): Logger {
  const nothing = () => undefined
  const error = (about: { err?: unknown }, text: string) => simulation.heardError(`${process.name}: ${text}`, about.err)
  return { trace: nothing, debug: nothing, info: nothing, warn: nothing, error, fatal: error } as unknown as Logger
}

export async function dispatcher(simulation: Simulation, process: Process): Promise<void> {
  const bus = await simulation.connect(process, 'passover')
  await bus.ensureTopology()
  const { id_window_ms } = simulation.plan
  const deps = { bus, clock: clockOf(bus), random: randomOf(process), log: logOf(simulation, process) }
  const narrow = simulation.plan.narrow ? { concurrency: 2, concurrency_crowded: 1, ahead: 1, out_of_turn: 2 } : {}
  await startDispatcher(deps, { policy: { version: 0, document: POLICY }, id_window_ms, ...narrow })
}

export async function keeper(simulation: Simulation, process: Process): Promise<void> {
  const bus = await simulation.connect(process, 'passover')
  const { id_window_ms } = simulation.plan
  const deps = { bus, clock: clockOf(bus), random: randomOf(process), log: logOf(simulation, process) }
  await startAudit(deps, { id_window_ms, compression: 'none', dead_letters_ms: DEAD_LETTERS_MS })
}

async function agent(simulation: Simulation, process: Process, name: string): Promise<Agent> {
  const bus = await simulation.connect(process, name)
  const deps = { bus, clock: clockOf(bus), random: randomOf(process) }
  return createAgent(deps, { directory: '/p', idWindowMs: simulation.plan.id_window_ms })
}

export async function worker(simulation: Simulation, process: Process): Promise<void> {
  const [name = ''] = process.name.split('-')
  const self = await agent(simulation, process, name)
  const handler: Handler = performer(simulation, process)
  await self.onPass(handler, { concurrency: 3, log: () => undefined })
}

/** Asks for what its plan says; started again, it asks what became of what it had asked for. */
export async function originator(simulation: Simulation, process: Process): Promise<void> {
  const { plan, world } = simulation
  const self = await agent(simulation, process, process.name)
  if (plan.durable?.includes(process.name)) await askForDelivery(simulation, process)
  for (const pass of plan.passes) {
    if (pass.from !== process.name) continue
    const asked = simulation.asked.get(pass.name)
    if (asked) listen(simulation, self, { pass, id: asked })
    else process.after(pass.at - world.time, () => ask(simulation, self, pass))
    for (const { after, same } of pass.again) {
      const at = pass.at + after
      if (at > world.time) process.after(at - world.time, () => askAgain(simulation, self, { pass, same }))
    }
  }
}

/** It has to be known before it asks for anything. */
async function askForDelivery(simulation: Simulation, process: Process): Promise<void> {
  const bus = await simulation.connect(process, process.name)
  for (;;) {
    const answer = (await bus.ask({ durable_returns: true }, { service: 'register' })) as { ok?: boolean } | undefined
    if (answer?.ok) return
    await new Promise<void>((again) => process.after(100, again))
  }
}

function ask(simulation: Simulation, self: Agent, pass: PassPlan): void {
  const given = pass.given ? { id: `given-${pass.name}-id` } : {}
  const handle = self.passOver({ ...given, ...optionsOf(pass) })
  void simulation.hear(pass, { self, handle, same: pass.given ? true : undefined })
  simulation.cancelLater(pass, handle)
}

function listen(simulation: Simulation, self: Agent, { pass, id }: { pass: PassPlan; id: string }): void {
  void simulation.hear(pass, { self, handle: self.handle(id, pass.to), same: undefined })
}

function askAgain(simulation: Simulation, self: Agent, { pass, same }: { pass: PassPlan; same: boolean }): void {
  const id = simulation.asked.get(pass.name)
  if (id === undefined) return
  if (pass.spoilt?.until_again) simulation.server.spoilt.delete(pass.name)
  const options = optionsOf(pass)
  if (!same) options.reason = OTHER_REASON
  void simulation.hear(pass, { self, handle: self.passOver({ id, ...options }), same })
}

/** A person who decides about what is held, and about what came back half done. */
export async function person(simulation: Simulation, process: Process): Promise<void> {
  const { plan, world } = simulation
  const bus = await simulation.connect(process, 'pat')
  for (const at of plan.policies ?? []) if (at > world.time) process.after(at - world.time, () => void changePolicy(simulation, bus))
  simulation.onDue = (book, item) => {
    const pass = simulation.passOf(book)
    const due = item === 'dispatch' ? pass?.hold : pass?.release
    if (!due || due.verdict === 'nobody') return
    const { verdict, digest, after } = due
    const shown = item === 'dispatch' ? book.digest : book.ended && sha256(book.ended.kept.data)
    process.after(after, () => void decide(bus, book, { item, verdict, digest: digest === 'right' ? (shown ?? '') : 'f'.repeat(64) }))
  }
}

/** Another version each time, and each of them is seen in what it admits. */
async function changePolicy(simulation: Simulation, bus: SimBus): Promise<void> {
  try {
    const store = await PolicyStore.open(bus, bus.timing)
    const base = (await store.rollForward())?.version ?? 0
    const document = passOverPreferences.parse({ defaults: { ...DEFAULTS, max_timeout_ms: 5_000 - 800 * (base % 5) } })
    await store.publish({ document, base })
    simulation.count('policies')
  } catch (error) {
    simulation.heardError('pat changes the policy', error)
  }
}

interface Decided {
  item: 'dispatch' | 'return'
  verdict: 'approve' | 'deny'
  digest: string
}

async function decide(bus: SimBus, book: Book, { item, verdict, digest }: Decided): Promise<void> {
  const message = {
    subject: bus.subjects.decision(book, item, 'pat'),
    headers: { 'Passover-Verdict': verdict, 'Passover-Digest': digest },
    data: encode({ v: 1, verdict, digest }, 'msgpack'),
  }
  await bus.publish(message)
  bus.hintDecided(book.originator)
}

/** Stores steps that no honest worker would: without guards, in the name of the newest attempt. */
export async function evil(simulation: Simulation, process: Process): Promise<void> {
  const bus = await simulation.connect(process, 'evil')
  const { evil_kinds = ['fence', 'return'] as const } = simulation.plan
  for (const at of simulation.plan.evil) {
    process.after(at - simulation.world.time, () => {
      const open = [...simulation.checks.books.values()].filter(({ state }) => state !== 'none')
      if (open.length === 0) return
      simulation.trouble(0)
      const book = process.dice.pick(open)
      const kind = process.dice.pick(evil_kinds)
      const attempt = book.attempt + (kind === 'fence' ? 1 : process.dice.pick([0, 0, 1]))
      const data = encode(kind === 'fence' ? { v: 1 } : { v: 1, output: { status: 'completed' } }, 'msgpack')
      const headers = { 'Passover-Attempt': String(attempt), 'Passover-Nonce': 'evil', 'Passover-Status': 'completed' }
      // It stands beside the server: nothing delays it.
      const block = encodeHeaders(headers)
      simulation.server.publish({ subject: bus.subjects.step(kind, book, book.subagent), block, data, guard: undefined }, 'evil')
    })
  }
}

const REAP_MS = 2_500

/** Deletes what is closed and old enough (rule 4), each pass in its order. */
export async function reaper(simulation: Simulation, process: Process): Promise<void> {
  const bus = await simulation.connect(process, 'passover')
  const { id_window_ms } = simulation.plan
  const round = async () => {
    for (const book of simulation.checks.books.values()) {
      if (book.state !== 'done' || simulation.reaped.has(book)) continue
      const youngest = simulation.youngestOf(book)
      if (youngest === undefined || bus.now() - youngest <= 2 * id_window_ms) continue
      const asked = book.answers === undefined || book.requests.includes(book.answers) ? book.requests : [...book.requests, book.answers]
      const requests = asked.filter((sequence) => simulation.server.stream.get(sequence))
      const gone = await deletePass(bus, book, { requests, rules: { id_window_ms } }).catch(() => false)
      if (gone) simulation.reaped.add(book)
    }
    process.after(REAP_MS, () => void round())
  }
  process.after(REAP_MS, () => void round())
}
