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
  const open: unknown[] = [value]
  while (open.length > 0) {
    const one = open.pop()
    if (typeof one === 'string') length += one.length
    else if (typeof one === 'object' && one !== null) {
      for (const [name, inner] of Object.entries(one)) {
        length += name.length
        open.push(inner)
      }
    }
  }
  return length
}

/** Lines of an output that are shown whole. Each costs some 100 bytes and a microsecond several times over. */
const MOST_WHOLE_LINES = 500_000

/** Refuses (E041) to show files as whole that have too many lines: it would keep everybody else waiting for seconds. */
export function requireFewLines(artifacts: unknown): void {
  let lines = 0
  const open: unknown[] = [artifacts]
  while (open.length > 0) {
    const one = open.pop()
    if (typeof one === 'string') lines += linesIn(one)
    else if (typeof one === 'object' && one !== null) for (const inner of Object.values(one)) open.push(inner)
  }
  if (lines <= MOST_WHOLE_LINES) return
  throw new Failure('E041', `its changes have ${lines} lines, too many to show here`, { hint: 'passover approve --whole shows them' })
}

function linesIn(text: string): number {
  let count = 0
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count += 1
  return count
}
