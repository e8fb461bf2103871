import type { PassOverMarker, PassStatus, WorkOutput } from '@passover/schemas'

/** A requested pass. `await` on the handle returns the WorkOutput or throws a PassOverError. */
export interface PassHandle extends Promise<WorkOutput> {
  /** The id of the pass. */
  readonly id: string
  /** The subagent of the pass. */
  readonly subagent: string
  /** Resolves when the stream has stored the request, else rejects with a PassOverError. For callers that do not wait for the return. */
  readonly stored: Promise<void>
  /** History entry for the request. `undefined` if another call requested the pass. */
  readonly marker: PassOverMarker | undefined
  /**
   * Waits for the return, like `await` on the handle.
   *
   * @returns The output.
   * @throws PassOverError with the codes of `Agent.passOver`.
   */
  result(): Promise<WorkOutput>
  /**
   * Reads the status of the pass from the audit service, or from the journal of the pass if the audit service does not answer.
   *
   * @returns The status.
   * @throws PassOverError with code E040: the server cannot be reached. E041: there is no such pass.
   */
  status(): Promise<PassStatus>
  /**
   * Cancels the pass and all of its descendants. They end with E043.
   *
   * @param reason - The reason, for people and the audit trail.
   * @returns A promise that settles when the cancel is stored.
   * @throws PassOverError with code E013: the agent may not cancel the pass. E040: the server cannot be reached.
   */
  cancel(reason?: string): Promise<void>
}

/** The functions and values behind a handle. */
export interface HandleActions {
  id: string
  subagent: string
  marker?: PassOverMarker | undefined
  stored: Promise<void>
  /** Starts to wait for the return. Called at most once. */
  wait: () => Promise<WorkOutput>
  status: () => Promise<PassStatus>
  cancel: (reason?: string) => Promise<void>
}

class Handle implements PassHandle {
  readonly [Symbol.toStringTag] = 'PassHandle'
  readonly id: string
  readonly subagent: string
  readonly stored: Promise<void>
  readonly marker: PassOverMarker | undefined
  readonly #parts: HandleActions
  #waiting: Promise<WorkOutput> | undefined

  constructor(parts: HandleActions) {
    this.#parts = parts
    this.id = parts.id
    this.subagent = parts.subagent
    this.stored = parts.stored
    this.marker = parts.marker
  }

  result(): Promise<WorkOutput> {
    this.#waiting ??= this.#parts.wait()
    return this.#waiting
  }
  status(): Promise<PassStatus> {
    return this.#parts.status()
  }
  cancel(reason?: string): Promise<void> {
    return this.#parts.cancel(reason)
  }

  // biome-ignore lint/suspicious/noThenProperty: a handle is awaited like the promise of its result, and only then begins to wait.
  then<A = WorkOutput, B = never>(
    fulfilled?: ((output: WorkOutput) => A | PromiseLike<A>) | null,
    rejected?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.result().then(fulfilled, rejected)
  }
  catch<B = never>(rejected?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<WorkOutput | B> {
    return this.result().catch(rejected)
  }
  finally(settled?: (() => void) | null): Promise<WorkOutput> {
    return this.result().finally(settled)
  }
}

export function makeHandle(parts: HandleActions): PassHandle {
  return new Handle(parts)
}
