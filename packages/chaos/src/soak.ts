/** What was watched of everything that ran, and which of it grows. */
export interface SoakReport {
  lines: string[]
  grows: string[]
}
