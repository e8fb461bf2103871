/** Edits beyond which two texts count as wholly different: nobody reads such a diff, and finding it out costs its square. */
const MOST_EDITS = 1_000

/** How many lines a change adds and removes, as a diff would show it (Myers' shortest edit). */
export function lineChanges(before: string, after: string): { added: number; removed: number } {
  const [a, b] = withoutCommonEnds(lines(before), lines(after))
  const edits = a.length === 0 || b.length === 0 ? a.length + b.length : shortestEdit(a, b)
  if (edits === undefined) return { added: b.length, removed: a.length }
  const more = b.length - a.length
  return { added: (edits + more) / 2, removed: (edits - more) / 2 }
}

/** With their line ends: a text that only loses its last one is a changed line. */
function lines(text: string): string[] {
  return text === '' ? [] : text.split(/(?<=\n)/)
}

function withoutCommonEnds(a: string[], b: string[]): [string[], string[]] {
  const shorter = Math.min(a.length, b.length)
  let head = 0
  while (head < shorter && a[head] === b[head]) head++
  let tail = 0
  while (tail < shorter - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++
  return [a.slice(head, a.length - tail), b.slice(head, b.length - tail)]
}

/** How many lines must be removed or added to make b of a; undefined: too many. */
function shortestEdit(a: string[], b: string[]): number | undefined {
  const most = Math.min(a.length + b.length, MOST_EDITS)
  /** On each diagonal the furthest place of a that this many edits reach. */
  const reach = new Int32Array(2 * most + 3)
  const at = (diagonal: number) => diagonal + most + 1
  for (let edits = 0; edits <= most; edits++) {
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const [left, right] = [reach[at(diagonal - 1)] ?? 0, reach[at(diagonal + 1)] ?? 0]
      let x = diagonal === -edits || (diagonal !== edits && left < right) ? right : left + 1
      while (x < a.length && x - diagonal < b.length && a[x] === b[x - diagonal]) x++
      reach[at(diagonal)] = x
      if (x >= a.length && x - diagonal >= b.length) return edits
    }
  }
  return undefined
}
