/** Maximum nesting of a body. Values of unknown shape may be 32 levels deep, and the structures around them add a few. */
const MAX_DEPTH = 64
/** Maximum number of values and members of a body. A policy with 10,000 pairs has fewer. */
const MAX_VALUES = 300_000

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

/**
 * Returns why JSON text is refused before it is parsed: it is nested too deeply or has too many values. Parsing and validating such a body would
 * block the process for seconds, while this check takes a few milliseconds. Text that is not JSON is left to the parser.
 */
export function tooComplex(bytes: Uint8Array): string | undefined {
  let depth = 0
  let values = 1
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] as number
    if (byte === QUOTE) at = endOfString(bytes, at)
    else if (byte === COMMA) values += 1
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      depth += 1
      values += 1
      if (depth > MAX_DEPTH) return `it is nested more than ${MAX_DEPTH} levels deep`
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth -= 1
    if (values > MAX_VALUES) return `it has more than ${MAX_VALUES} values`
  }
  return undefined
}

/** Returns the index of the closing quote of the string that begins at `from`. */
function endOfString(bytes: Uint8Array, from: number): number {
  let at = from + 1
  while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1
  return at
}
