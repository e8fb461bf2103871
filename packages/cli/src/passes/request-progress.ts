import type { Bus } from '@passover/bus'
import { askPasses, noWorkersText, totalLoad, workersFor } from '@passover/operator'
import type { AnsweredPass } from '@passover/schemas'
import { entryText } from '../render/timeline.js'
import type { Progress } from '../terminal/terminal.js'

export interface FollowedPass {
  id: string
  from: string
  to: string
  progress: Progress
}

/** Milliseconds until the first report; quick passes need none. */
const FIRST_REPORT_MS = 700
const POLL_INTERVAL_MS = 1_000

/** Reports the state of a pass while the command waits, and the reason for a delay. Errors here do not affect the pass. */
export function showProgress(bus: Bus, followed: FollowedPass): { stop(): void } {
  let stopped = false
  let timer: NodeJS.Timeout | undefined
  const began = performance.now()
  const look = async () => {
    const text = await standingText(bus, followed, performance.now() - began).catch(() => undefined)
    if (stopped) return
    if (text) followed.progress.say(text)
    timer = setTimeout(look, POLL_INTERVAL_MS)
  }
  if (followed.progress.live) followed.progress.say(`Sending to ${followed.to}`)
  timer = setTimeout(look, FIRST_REPORT_MS)
  return {
    stop() {
      stopped = true
      clearTimeout(timer)
      followed.progress.stop()
    },
  }
}

async function standingText(bus: Bus, { id, from, to }: FollowedPass, waited: number): Promise<string> {
  const [pass] = await askPasses(bus, { id, from, to }, { history: true })
  if (!pass || pass.status === 'requested')
    return waited < 3_000
      ? `Sent ${id} to ${to}.`
      : `Sent ${id} to ${to}; no dispatcher has processed it yet. passover doctor shows details.`
  if (pass.status === 'held')
    return `Held until a person approves it (passover inbox lists pending items): ${approveHint({ id, from }, bus.identity, pass.control?.local_person)}`
  if (pass.status === 'awaiting_release')
    return `Returned; a person must release the result, because it has critical findings or is only partly done: ${approveHint({ id, from }, bus.identity, pass.control?.local_person)}`
  const worked = workedOn(pass)
  if (worked) return worked
  const [load, workers] = await Promise.all([totalLoad(bus, to), workersFor(bus, to)])
  return waitingText(to, { ...load, workers })
}

/** Returns the approve command, and who may run it: not the person who asked, unless they are the only person of a local server. */
export function approveHint({ id, from }: Pick<FollowedPass, 'id' | 'from'>, person: string, local_person?: unknown): string {
  if (from !== person || local_person === person) return `passover approve ${id}`
  return `passover approve ${id} (by a person other than ${person}, who requested it)`
}

/** Explains why a new pass is held. The dispatcher has not read it yet, so it is unknown whether this person may decide. */
export function heldText({ id, from }: Pick<FollowedPass, 'id' | 'from'>, person: string): string {
  const own =
    from === person ? `. ${person} requested it, so another person must approve it, except on a local server with a single person` : ''
  return `Held until a person approves: passover approve ${id}${own}`
}

/** Returns the last report of the worker. */
function workedOn(pass: AnsweredPass): string | undefined {
  const told = pass.history?.filter(({ kind }) => kind === 'started' || kind === 'progress' || kind === 'fence').at(-1)
  return told ? `${pass.row.id}: ${entryText(told)}` : undefined
}

/** Explains why a pass waits, so that a queued pass is never shown as running. */
export function waitingText(to: string, load: { idle: number; running: number; queued: number; workers: number }): string {
  const { idle, running, queued, workers } = load
  if (workers === 0) return noWorkersText(to)
  if (queued > 0 && idle === 0 && running === 0) return `Queued: no worker on \`${to}\` accepts work at the moment (${queued} waiting)`
  if (queued > 0 && idle === 0) return `Queued: every worker on \`${to}\` is busy (${running} running, ${queued} waiting)`
  return `A worker of \`${to}\` received it.`
}
