/** Request to the thread. Schema and value are sent as JSON text, so that a value that is not JSON is detected before. */
export interface ToThread {
  id: number
  digest: string
  schema: string
  /** Value to check. Without it the schema is only compiled. */
  value: string | undefined
}

export type FromThread =
  /** `task`: the system's id of the thread, if available. */
  { kind: 'ready'; task: string | undefined } | { kind: 'checked'; id: number; faults: string[] }
