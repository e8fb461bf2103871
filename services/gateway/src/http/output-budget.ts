import { Failure } from '@passover/operator'

/** Bytes of outputs that one answer may load. Agents choose the size of outputs, and one process serves everybody. */
export class OutputBudget {
  constructor(private left: number) {}

  /** False: it is too much. Nothing is taken then. */
  readonly takes = (bytes: number): boolean => {
    if (!(bytes >= 0 && bytes <= this.left)) return false
    this.left -= bytes
    return true
  }
}

/** A JSON value and everything in it. Without recursion: agents choose how deep it is. */
function* valuesIn(value: unknown): Generator<unknown> {
  const open = [value]
  while (open.length > 0) {
    const one = open.pop()
    yield one
    if (typeof one === 'object' && one !== null) for (const inner of Object.values(one)) open.push(inner)
  }
}

/** Lines of an output that are shown whole. Each costs some 100 bytes and a microsecond several times over. */
const MAX_WHOLE_LINES = 500_000

/** Refuses (E041) to show files as whole that have too many lines: it would keep everybody else waiting for seconds. */
export function requireFewLines(artifacts: unknown): void {
  let lines = 0
  for (const one of valuesIn(artifacts)) if (typeof one === 'string') lines += linesIn(one)
  if (lines <= MAX_WHOLE_LINES) return
  throw new Failure('E041', `its changes have ${lines} lines, too many to show here`, { hint: 'passover approve --whole shows them' })
}

function linesIn(text: string): number {
  let count = 0
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count += 1
  return count
}
