import { Failure } from '@passover/operator'

/** Byte budget of the outputs that one response may load. Agents choose the size of outputs, and one process serves all callers. */
export class OutputBudget {
  #left: number

  constructor(left: number) {
    this.#left = left
  }

  /** Takes bytes from the budget. Returns false, and takes nothing, if they exceed it. */
  readonly takes = (bytes: number): boolean => {
    if (!(bytes >= 0 && bytes <= this.#left)) return false
    this.#left -= bytes
    return true
  }
}

/** Yields a JSON value and everything in it. Not recursive, because agents choose the depth. */
function* valuesIn(value: unknown): Generator<unknown> {
  const open = [value]
  while (open.length > 0) {
    const one = open.pop()
    yield one
    if (typeof one === 'object' && one !== null) for (const inner of Object.values(one)) open.push(inner)
  }
}

/** Maximum number of lines of an output that are shown in full. Each costs about 100 bytes and several microseconds. */
const MAX_WHOLE_LINES = 500_000

/** Refuses (E041) to show files in full that have too many lines, which would block other requests for seconds. */
export function requireFewLines(artifacts: unknown): void {
  let lines = 0
  for (const one of valuesIn(artifacts)) if (typeof one === 'string') lines += linesIn(one)
  if (lines <= MAX_WHOLE_LINES) return
  throw new Failure('E041', `its changes have ${lines} lines, which are too many to show here`, {
    hint: 'passover approve --whole shows them',
  })
}

function linesIn(text: string): number {
  let count = 0
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count += 1
  return count
}
