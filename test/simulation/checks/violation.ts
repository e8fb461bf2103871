/** Something that breaks a promise: which, and how. */
export interface Violation {
  promise: 'P1' | 'P2' | 'P3' | 'P4' | 'P5'
  /** One word for what kind it is: shrinking keeps it. */
  kind: string
  text: string
  at: number
}
