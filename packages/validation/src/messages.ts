/** Schema and value travel as JSON text: what is not JSON is found before it is sent. */
export interface ToThread {
  id: number
  digest: string
  schema: string
  /** Absent: the schema is only compiled. */
  value: string | undefined
}

export type FromThread =
  /** `task`: what the system calls the thread, where it tells. */
  { kind: 'ready'; task: string | undefined } | { kind: 'checked'; id: number; faults: string[] }
