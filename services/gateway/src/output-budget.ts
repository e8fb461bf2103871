import { Failure } from '@passover/sdk/people'

/** Bytes of outputs that one answer may load. Agents choose the size of outputs, and one process serves everybody. */
export class OutputBudget {
  constructor(private left: number) {}

  /** False: it is too much. Nothing is taken then. */
  readonly takes = (bytes: number): boolean => {
    if (bytes > this.left) return false
    this.left -= bytes
    return true
  }
}

/** Characters of all texts in a JSON value. */
export function textLength(value: unknown): number {
  let length = 0
  for (const [name, one] of entriesIn(value)) length += name.length + (typeof one === 'string' ? one.length : 0)
  return length
}

/** A JSON value and everything in it, each with its name or index. Without recursion: agents choose how deep it is. */
function* entriesIn(value: unknown): Generator<[name: string, value: unknown]> {
  const open: [string, unknown][] = [['', value]]
  for (let entry = open.pop(); entry; entry = open.pop()) {
    yield entry
    const [, one] = entry
    if (typeof one === 'object' && one !== null) for (const inner of Object.entries(one)) open.push(inner)
  }
}

/** Lines of an output that are shown whole. Each costs some 100 bytes and a microsecond several times over. */
const MOST_WHOLE_LINES = 500_000

/** Refuses (E041) to show files as whole that have too many lines: it would keep everybody else waiting for seconds. */
export function requireFewLines(artifacts: unknown): void {
  let lines = 0
  for (const [, one] of entriesIn(artifacts)) if (typeof one === 'string') lines += linesIn(one)
  if (lines <= MOST_WHOLE_LINES) return
  throw new Failure('E041', `its changes have ${lines} lines, too many to show here`, { hint: 'passover approve --whole shows them' })
}

function linesIn(text: string): number {
  let count = 0
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count += 1
  return count
}
