const QUOTE = '"'

/** How many members the objects of a JSON text have, by their names as they stand there; of a value, as it was read. They differ where a name stands twice. */
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

/** Where a string ends that begins here. */
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
  // No recursion: it may be nested as deep as its file is long.
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
