import type { JetStreamApi } from '../messaging/jetstream-api.js'

interface StreamState {
  created: string
  state: { last_seq: number }
}

/** Whether a stream is still the one that was read: one of the same name may have been made anew, however much it holds by now. */
export class StreamIdentity {
  readonly #api: JetStreamApi
  readonly #stream: string
  #created: string | undefined

  constructor(api: JetStreamApi, stream: string) {
    this.#api = api
    this.#stream = stream
  }

  /** Learns when it was made, where that is not known. */
  async note(): Promise<void> {
    if (this.#created === undefined) this.#created = (await this.#info()).created
  }

  /** Its last sequence now. */
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
