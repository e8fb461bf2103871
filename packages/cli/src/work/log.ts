import type { Pass, WorkerEvent } from '@passover/sdk'
import { duration } from '../terminal/duration.js'
import type { Terminal } from '../terminal/terminal.js'
import { oneLine } from '../terminal/text.js'

type AttemptEvent = Extract<WorkerEvent, { kind: 'returned' | 'failed' | 'discarded' }>
type Attempt = Pick<Pass, 'id' | 'originator' | 'attempt'>
/** Category in which an attempt is counted. */
type Sum = 'completed' | 'failed' | 'discarded'

const DISCARDED: Record<Extract<AttemptEvent, { kind: 'discarded' }>['why'], string> = {
  ended: 'discarded: the pass has already ended',
  lost: 'lost: another attempt returned',
  gave_up: 'discarded: the server did not accept its return',
  handed_back: 'returned to the queue',
}

/** Logs work on stderr (human mode) or stdout (--jsonl). Reports how an attempt ended only after the end of its pass is confirmed. */
export class WorkLog {
  /** Counts. `passes` counts attempts; `discarded` those whose outcome was not that of their pass. */
  readonly sums = { passes: 0, completed: 0, failed: 0, discarded: 0 }
  readonly #terminal: Pick<Terminal, 'mode' | 'note' | 'stream'>
  readonly #began = new Map<string, number>()

  constructor(terminal: Pick<Terminal, 'mode' | 'note' | 'stream'>) {
    this.#terminal = terminal
  }

  began(pass: Attempt & Pick<Pass, 'reason'>): void {
    const { id, originator, reason, attempt } = pass
    this.#began.set(nameOf(pass), performance.now())
    this.#tell(
      { event: 'began', id, originator, reason, attempt },
      `→ ${id}  from ${originator}: ${oneLine(reason, 80)}${attempt > 1 ? ` (attempt ${attempt})` : ''}`,
    )
  }

  said(pass: Pick<Pass, 'id'>, line: string): void {
    if (this.#terminal.mode === 'human') this.#terminal.note(`  ${pass.id.slice(-6)} | ${oneLine(line)}`)
  }

  /** Logs an event of the worker itself. Waiting is not logged, because it was announced at the start. */
  happened(event: WorkerEvent): void {
    const { kind } = event
    if (kind === 'lost' || kind === 'found' || kind === 'health') this.#tell({ event: kind }, oneLine(event.text))
    if (kind === 'unread') this.#tell({ event: kind, id: event.pass.id, originator: event.pass.originator }, oneLine(event.text))
    if (kind === 'returned' || kind === 'failed' || kind === 'discarded') this.#ended(event)
  }

  #ended(event: AttemptEvent): void {
    const { id, originator } = event.pass
    const name = nameOf({ id, originator, attempt: event.attempt })
    const began = this.#began.get(name)
    this.#began.delete(name)
    const { how, sum } = endOf(event)
    this.sums.passes += 1
    this.sums[sum] += 1
    const duration_ms = began === undefined ? undefined : Math.round(performance.now() - began)
    const time = duration_ms === undefined ? '' : ` in ${duration(duration_ms)}`
    this.#tell({ event: 'ended', id, duration_ms, how }, `← ${id}  ${oneLine(how, 200)}${time}`)
  }

  #tell(document: object, text: string): void {
    if (this.#terminal.mode === 'jsonl') this.#terminal.stream(document, () => undefined)
    if (this.#terminal.mode === 'human') this.#terminal.note(text)
  }
}

function endOf(event: AttemptEvent): { how: string; sum: Sum } {
  if (event.kind === 'returned') {
    const { status } = event
    return { how: status, sum: status === 'completed' || status === 'partial' ? 'completed' : 'failed' }
  }
  if (event.kind === 'failed') return failedWith(event.error)
  return event.error ? failedWith(event.error) : { how: DISCARDED[event.why], sum: 'discarded' }
}

function failedWith({ code, message }: { code: string; message: string }): { how: string; sum: Sum } {
  return { how: `${code} ${message}`, sum: 'failed' }
}

function nameOf({ originator, id, attempt }: Attempt): string {
  return `${originator}/${id}/${attempt}`
}
