import type { Bus } from '@passover/bus'
import { askCustody, findPass, publishCustodyEvent } from '@passover/operator'
import type { CustodyHold, CustodyScope } from '@passover/schemas'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { formatPerson, readNameVerification } from '../connection/verified-names.js'
import { CliFailure, usage } from '../errors.js'
import { scopeText } from '../render/custody.js'
import { renderTable } from '../render/table.js'
import { dateTime } from '../terminal/duration.js'
import { formatCommands } from '../terminal/text.js'

export interface HoldFlags {
  session?: string
  pass?: string
  from?: string
  to?: string
  reason: string
}

/** Places a legal hold on a session or a pass. */
export async function runHold(context: Context, flags: HoldFlags): Promise<number> {
  await using bus = await connectPerson(context)
  const scope = await scopeOf(bus, flags)
  const hold = await publishCustodyEvent(bus, { kind: 'hold', scope, reason: flags.reason })
  const names = await readNameVerification(bus, context)
  context.terminal.show(
    { hold, scope, reason: flags.reason, by: bus.identity, ...names },
    () =>
      `Held ${scopeText(scope)} as ${formatPerson(bus.identity, names)}: hold ${hold}.\n${formatCommands(`To release it: passover audit hold remove ${hold}`)}`,
  )
  return 0
}

async function scopeOf(bus: Bus, { session, pass, from, to }: HoldFlags): Promise<CustodyScope> {
  if ((session === undefined) === (pass === undefined)) throw usage('name what to hold: either --session or --pass')
  if (session !== undefined) return { session }
  return { pass: (await findPass(bus, { id: pass ?? '', from, to })).key }
}

/** Releases a hold. Throws CliFailure E041 if there is no hold with that number. */
export async function runRelease(context: Context, hold: number, reason: string | undefined): Promise<number> {
  await using bus = await connectPerson(context)
  const { holds } = await askCustody(bus)
  const found = holds.find((one) => one.hold === hold)
  if (!found) throw new CliFailure('E041', `there is no hold ${hold}`, { hint: '`passover audit hold list` lists the holds' })
  await publishCustodyEvent(bus, { kind: 'release', hold, ...(reason === undefined ? {} : { reason }) })
  const names = await readNameVerification(bus, context)
  const who = formatPerson(bus.identity, names)
  context.terminal.show(
    { released: hold, by: bus.identity, ...names },
    () => `Released ${scopeText(found.scope)} (hold ${hold}) as ${who}.`,
  )
  return 0
}

/** Lists the holds. */
export async function runHolds(context: Context): Promise<number> {
  const { terminal } = context
  await using bus = await connectPerson(context)
  const { holds } = await askCustody(bus)
  if (terminal.mode === 'jsonl') for (const hold of holds) terminal.stream(hold, () => undefined)
  else terminal.show(holds, () => (holds.length === 0 ? 'No legal holds.' : holdsText(holds, terminal)))
  return 0
}

function holdsText(holds: CustodyHold[], terminal: Context['terminal']): string {
  return renderTable(
    [
      { head: 'HOLD', cell: ({ hold }) => String(hold) },
      { head: 'OF', cell: ({ scope }) => scopeText(scope), shrinks: true },
      { head: 'BY', cell: (hold) => formatPerson(hold.by, hold) },
      { head: 'SINCE', cell: ({ time }) => dateTime(time) },
      { head: 'REASON', cell: ({ reason }) => reason, shrinks: true },
    ],
    holds,
    terminal,
  )
}
