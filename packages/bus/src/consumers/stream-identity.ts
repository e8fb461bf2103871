import type { JetStreamApi } from '../messaging/jetstream-api.js'

interface StreamState {
  created: string
  state: { last_seq: number }
}

/** Detects whether a stream was replaced by another of the same name since it was read, regardless of its current sequence. */
export class StreamIdentity {
  readonly #api: JetStreamApi
  readonly #stream: string
  #created: string | undefined

  constructor(api: JetStreamApi, stream: string) {
    this.#api = api
    this.#stream = stream
  }

  /** Stores the creation time of the stream, unless it is known. */
  async note(): Promise<void> {
    if (this.#created === undefined) this.#created = (await this.#info()).created
  }

  /** Returns the stream's current last sequence. */
  async last(): Promise<number> {
    return (await this.#info()).state.last_seq
  }

  async look(): Promise<{ last: number; isOther: boolean }> {
    const { state, created } = await this.#info()
    const isOther = this.#created !== undefined && this.#created !== created
    this.#created = created
    return { last: state.last_seq, isOther }
  }

  #info(): Promise<StreamState> {
    return this.#api.must<StreamState>(`STREAM.INFO.${this.#stream}`)
  }
}
