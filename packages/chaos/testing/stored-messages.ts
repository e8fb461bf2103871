import type { StoredMessage } from '../src/check/types.js'

export const NOW = 1_800_000_000_000
export const ID = `0abcdefg${NOW.toString(36).padStart(9, '0')}_ABCDEFGHIJKLMN`
export const OTHER_ID = `0abcdefg${NOW.toString(36).padStart(9, '0')}_NMLKJIHGFEDCBA`

export interface Line {
  subject: string
  headers?: Record<string, string | number>
  /** After NOW, ms. */
  after?: number
  data?: Uint8Array
}

/** A stream told in lines; `guard` in a line's headers stands for both guard headers. */
export function streamOf(lines: readonly Line[]): StoredMessage[] {
  return lines.map(({ subject, headers = {}, after = 0, data = new Uint8Array(0) }, i) => {
    const [, o, s, id] = subject.split('.')
    const { guard, ...rest } = headers
    const all: Record<string, string | number> = rest
    if (guard !== undefined) {
      all['Nats-Expected-Last-Subject-Sequence'] = guard
      all['Nats-Expected-Last-Subject-Sequence-Subject'] ??= `*.${o}.${s}.${id}.*`
    }
    const header = (name: string) => (all[name] === undefined ? undefined : String(all[name]))
    return { subject, sequence: i + 1, time: NOW + after, header, headers: () => listsOf(all), data }
  })
}

function listsOf(headers: Record<string, string | number>): Record<string, string[]> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [String(value)]]))
}
