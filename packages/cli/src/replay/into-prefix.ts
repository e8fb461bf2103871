import { randomBytes } from 'node:crypto'
import { type Bus, PartError, Subjects } from '@passover/bus'
import { askPasses, isOpen } from '@passover/operator'
import { type AnsweredPass, keyText } from '@passover/schemas'
import { connectAs } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { CliFailure, DECLINED, usage } from '../errors.js'
import { confirmAction } from '../input/confirm.js'
import { SUBJECT_KINDS } from '../stored-messages/stored-record.js'
import { StoredRequests } from '../stored-messages/stored-requests.js'
import { count } from '../terminal/text.js'
import { copyParts, prepareResubmit, type Resubmission, resubmitMessage } from './resubmit.js'

export interface IntoOptions {
  bus: Bus
  passes: readonly AnsweredPass[]
  toPrefix: string
  dryRun?: boolean
  yes?: boolean
  wait?: number
}

interface ReplayedPass {
  pass: string
  again?: string
  before: string
  after?: string
  skipped?: string
}

const POLL_INTERVAL_MS = 200

/** Requests recorded passes again in another namespace, never in their own. */
export async function replayInto(context: Context, options: IntoOptions): Promise<number> {
  const { terminal } = context
  const { bus, passes, toPrefix } = options
  refuseOwnNamespace(bus, toPrefix)
  const plans = await planned(bus, passes)
  const wanted = plans.filter(({ plan }) => plan.ok)
  if (options.dryRun) {
    show(
      context,
      plans.map(toRow),
      `${count(wanted.length, 'request')} would be sent again under "${toPrefix}", ${plans.length - wanted.length} skipped.`,
    )
    return 0
  }
  if (!options.yes) {
    const question = `Send ${count(wanted.length, 'request')} again under "${toPrefix}"? The agents there will do the work.`
    if (!terminal.interactive)
      throw usage('replay --to-prefix needs --yes if there is no terminal to ask for confirmation', 'to see the requests first: --dry-run')
    if (!(await confirmAction(question))) return DECLINED
  }
  const done: ReplayedPass[] = []
  for (const { pass, plan } of plans)
    done.push(plan.ok ? { ...toRow({ pass, plan }), ...(await ask(context, options, plan)) } : toRow({ pass, plan }))
  show(context, done, `Sent ${count(wanted.length, 'request')} again under "${toPrefix}".`)
  return 0
}

/** Refuses the namespace of the passes themselves (an empty prefix names one too), and a prefix whose subjects the live stream would capture. */
function refuseOwnNamespace({ subjects }: Bus, toPrefix: string): void {
  const there = namespaceOf(toPrefix)
  if (there.prefix === subjects.prefix || there.stream === subjects.stream)
    throw usage(`--to-prefix ${JSON.stringify(toPrefix)} is the namespace of these passes; choose another one`)
  const [head = ''] = there.prefix.startsWith(subjects.prefix) ? there.prefix.slice(subjects.prefix.length).split('.') : []
  if (SUBJECT_KINDS.has(head)) throw usage(`--to-prefix ${toPrefix}: the live stream would store requests under this prefix`)
}

function namespaceOf(toPrefix: string): Subjects {
  try {
    return new Subjects(toPrefix)
  } catch {
    throw usage(
      `--to-prefix ${JSON.stringify(toPrefix)} is not a valid subject prefix`,
      'use one to four names of A-Z a-z 0-9 _ -, separated by dots',
    )
  }
}

interface Planned {
  pass: AnsweredPass
  plan: Resubmission
}

async function planned(bus: Bus, passes: readonly AnsweredPass[]): Promise<Planned[]> {
  const run = randomBytes(8).toString('hex')
  const requests = new StoredRequests(bus)
  const found: Planned[] = []
  for (const pass of passes) found.push({ pass, plan: prepareResubmit(pass.key, await requests.of(pass), run) })
  return found
}

function toRow({ pass, plan }: Planned): ReplayedPass {
  const row = { pass: keyText(pass.key), before: pass.status }
  return plan.ok ? { ...row, again: plan.id } : { ...row, skipped: plan.why }
}

type AcceptedResubmission = Extract<Resubmission, { ok: true }>

/** Publishes one request in the other namespace as its originator. With `wait`, also returns the status it reaches. */
async function ask(context: Context, { bus, toPrefix, wait }: IntoOptions, again: AcceptedResubmission): Promise<Partial<ReplayedPass>> {
  await using shadow = await connectAs(again.of.originator, context.server(), toPrefix)
  const body = await copyParts(bus, shadow, again).catch((error: unknown) => {
    if (error instanceof PartError) return error.message
    throw error
  })
  if (typeof body === 'string') return { skipped: body }
  const outcome = await shadow.publish(resubmitMessage(shadow, again, body))
  if (outcome.kind !== 'stored') {
    const why = 'description' in outcome ? outcome.description : outcome.kind
    throw new CliFailure('E040', `no service accepts requests under "${toPrefix}": ${why}`, {
      hint: `a dispatcher, an audit service and the agents must run there, with PASSOVER_PREFIX=${toPrefix}`,
    })
  }
  return wait === undefined ? {} : { after: await statusThere(shadow, again, wait) }
}

async function statusThere(shadow: Bus, { id, of }: AcceptedResubmission, wait: number): Promise<string> {
  const until = performance.now() + wait
  let status = 'requested'
  while (performance.now() < until) {
    const [pass] = await askPasses(shadow, { id, from: of.originator, to: of.subagent })
    status = pass?.status ?? status
    if (!isOpen({ status })) break
    await new Promise((done) => setTimeout(done, POLL_INTERVAL_MS))
  }
  return status
}

function show({ terminal }: Context, rows: readonly ReplayedPass[], sentence: string): void {
  terminal.show(rows, () => [sentence, ...rows.map(rowText)].join('\n'))
}

function rowText({ pass, again, before, after, skipped }: ReplayedPass): string {
  if (skipped) return `  - ${pass}: ${skipped}`
  const became = after === undefined ? '' : `  ${before} → ${after}${before === after ? '' : '  differs'}`
  return `  ${pass}  → ${again}${became}`
}
