import type { ArchivedEvent } from '@passover/archive'
import { encode, encodeHeaders, Subjects } from '@passover/bus'

const T0 = 1_800_000_000_000
const EXPECTED = 'Nats-Expected-Last-Subject-Sequence'

/** Messages one after the other, as a stream would have stored them. */
export class EventLog {
  readonly events: ArchivedEvent[] = []
  readonly subjects = new Subjects()
  /** Told of each event instead of keeping it. */
  onEvent: ((event: ArchivedEvent) => void) | undefined
  protected time = T0
  private sequence = 0

  put(
    subject: string,
    { headers = {}, body, guard }: { headers?: Record<string, string>; body: unknown; guard?: [string, number] },
  ): ArchivedEvent {
    const guarded = guard ? { [EXPECTED]: String(guard[1]), [`${EXPECTED}-Subject`]: guard[0] } : {}
    this.time += 3
    const event = {
      sequence: ++this.sequence,
      time: this.time,
      subject,
      headers: encodeHeaders({ ...headers, ...guarded }),
      data: encode(body),
    }
    if (this.onEvent) this.onEvent(event)
    else this.events.push(event)
    return event
  }

  wait(ms: number): void {
    this.time += ms
  }
}
