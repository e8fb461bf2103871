import { escapeJson } from './json.js'
import { Repeats } from './repeats.js'

/** pino's number of the level `warn`. */
const WARN = 40
/** Length above which a line is not compared, and therefore always logged. */
const LONGEST = 4_096

type Tell = (this: unknown, ...args: unknown[]) => void

/**
 * Returns options of a pino logger whose lines can be printed to a terminal. A warning or an error that repeats with the same text and fields is
 * logged at growing intervals; the field `repeated` counts those that were left out.
 */
export function logOptions(now: () => number = () => performance.now()) {
  const repeats = new Repeats()
  return {
    hooks: {
      streamWrite: escapeJson,
      logMethod(this: unknown, args: unknown[], method: (...args: never[]) => void, level: number): void {
        const line = level < WARN ? undefined : lineOf(level, args)
        const repeated = line === undefined ? 0 : repeats.tell(line, now())
        if (repeated !== undefined) (method as Tell).apply(this, repeated === 0 ? args : counted(args, repeated))
      },
    },
  }
}

function counted(args: unknown[], repeated: number): unknown[] {
  const [fields, ...rest] = args
  if (fields instanceof Error) return [{ err: fields, repeated }, ...rest]
  return typeof fields === 'object' && fields !== null ? [{ ...fields, repeated }, ...rest] : [{ repeated }, ...args]
}

/** Returns the text by which two lines are compared, or `undefined` for a line that is not compared. */
function lineOf(level: number, args: unknown[]): string | undefined {
  try {
    const text = JSON.stringify([level, ...args], (_name, value) => (value instanceof Error ? `${value.name}: ${value.message}` : value))
    return text.length > LONGEST ? undefined : text
  } catch {
    return undefined
  }
}
