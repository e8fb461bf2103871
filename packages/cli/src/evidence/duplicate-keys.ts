const QUOTE = '"'

/**
 * Counts the members of all objects in a JSON text, as written. {@link countMembersOfValue} counts them after parsing; the numbers differ
 * if a name occurs twice.
 */
export function countMembersInText(text: string): number {
  let members = 0
  for (let at = text.indexOf(QUOTE); at >= 0; ) {
    const end = endOf(text, at + 1)
    if (end < 0) return members
    let next = end + 1
    while (' \n\r\t'.includes(text.charAt(next)) && next < text.length) next++
    if (text[next] === ':') members++
    at = text.indexOf(QUOTE, next)
  }
  return members
}

/** Returns the index of the quote that ends a string whose content begins at `from`, or -1. */
function endOf(text: string, from: number): number {
  for (let at = text.indexOf(QUOTE, from); at >= 0; at = text.indexOf(QUOTE, at + 1)) {
    let escapes = 0
    while (text[at - 1 - escapes] === '\\') escapes++
    if (escapes % 2 === 0) return at
  }
  return -1
}

export function countMembersOfValue(value: unknown): number {
  let members = 0
  // Iterative instead of recursive, because a file may nest as deep as it is long.
  const left = [value]
  while (left.length > 0) {
    const one = left.pop()
    if (typeof one !== 'object' || one === null) continue
    const values = Object.values(one)
    if (!Array.isArray(one)) members += values.length
    for (const below of values) left.push(below)
  }
  return members
}
