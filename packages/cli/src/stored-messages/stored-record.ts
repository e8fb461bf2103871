import type { ArchivedEvent } from '@passover/archive'
import { decode, type MessageHeaders, readHeaders, Subjects } from '@passover/bus'
import type { RecordedMessage, RequestReading } from '@passover/core'
import { parseRequest } from '@passover/dispatcher'
import { type Fact, HEADER, type Part, sha256 } from '@passover/schemas'

/** Adapts a stored message to the rules in the core package. Decodes its fields on demand, and only once. */
export class StoredRecord implements RecordedMessage {
  readonly fact: Fact
  readonly version: 'policy' | 'agent' | 'custody' | undefined
  readonly sender: string | undefined
  readonly #headers: MessageHeaders
  #decoded: { value: unknown } | undefined
  #request: RequestReading | undefined

  constructor(
    readonly event: ArchivedEvent,
    subjects: Subjects,
  ) {
    this.#headers = readHeaders(event.headers)
    this.fact = subjects.toFact({ ...event, headers: this.#headers })
    const parsed = this.fact.type === 'other' ? subjects.parse(event.subject) : undefined
    const kind = parsed?.kind
    this.version = kind === 'policy' || kind === 'agent' || kind === 'custody' ? kind : undefined
    this.sender = parsed?.kind === 'custody' ? parsed.person : undefined
  }

  get subject(): string {
    return this.event.subject
  }

  body(): unknown {
    // The body of an untrusted message is ignored.
    this.#decoded ??= { value: 'untrusted' in this.fact && this.fact.untrusted ? undefined : bodyOf(this.event.data, this.#headers) }
    return this.#decoded.value
  }

  reading(): RequestReading {
    this.#request ??= this.#read()
    return this.#request
  }

  digest(): string {
    return sha256(this.event.data)
  }

  header(name: string): string | undefined {
    return this.#headers.get(name)
  }

  partFault(parts: readonly Part[]): string | undefined {
    for (const { name, data, hash } of parts) {
      if (data instanceof Uint8Array && sha256(data) !== hash) return `the bytes of its part ${JSON.stringify(name)} do not match its hash`
    }
    return undefined
  }

  #read(): RequestReading {
    const { fact } = this
    if (fact.type !== 'request') return { ok: false, error: { code: 'E005', message: 'it is not a request' } }
    return parseRequest({ headers: this.#headers, data: this.event.data }, fact)
  }
}

function bodyOf(data: Uint8Array, headers: MessageHeaders): unknown {
  const decoded = decode(data, headers.get(HEADER.contentType))
  return decoded.ok ? decoded.value : undefined
}

/** First subject tokens, after the prefix, of all messages that a stream stores. */
export const SUBJECT_KINDS: ReadonlySet<string> = new Set([
  'request',
  'held',
  'work',
  'fence',
  'return',
  'decision',
  'event',
  'acknowledged',
  'policy',
  'agent',
  'custody',
])

/** Derives the namespace of a stream from a subject. A saved archive does not record it otherwise. */
export function subjectsFrom(subject: string): Subjects {
  const tokens = subject.split('.')
  const at = subject.startsWith('$') ? 0 : tokens.findIndex((token) => SUBJECT_KINDS.has(token))
  return new Subjects(at > 0 ? tokens.slice(0, at).join('.') : undefined)
}
