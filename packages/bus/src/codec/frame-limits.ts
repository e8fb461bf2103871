/**
 * Checks the lengths that a MessagePack body claims before anything is decoded.
 *
 * The general decoder reserves an array as soon as it reads a length. Nested lists that each claim a large length make a body of 1 KB reserve
 * gigabytes. Every value takes at least one byte, so a valid body never claims more values than it has bytes.
 */

/** Defect of a body: lengths that exceed its bytes, or too deep nesting. `undefined` if the body has neither. */
export type FrameFault = 'lengths' | 'depth' | undefined

/**
 * Returns the defect of a body's lengths or nesting, if any. Ignores bytes after the first value.
 *
 * @param most - maximum nesting depth of lists and maps
 */
export function frameFault(bytes: Uint8Array, most: number): FrameFault {
  /** Number of values still missing in each open list and map, the outermost first. */
  const missing: number[] = []
  let owed = 1
  let at = 0
  while (owed > 0) {
    if (owed > bytes.length - at) return 'lengths'
    const head = bytes[at] as number
    const values = valuesIn(bytes, at, head)
    at += 1 + bytesAfter(bytes, at, head)
    owed += values - 1
    if (values > 0) {
      if (missing.length >= most) return 'depth'
      missing.push(values)
      continue
    }
    closeFull(missing)
  }
  return undefined
}

/** Returns the index after the value that begins at `at`, or `undefined` if the bytes end within it. */
export function endOfValue(bytes: Uint8Array, at: number): number | undefined {
  let end = at
  for (let owed = 1; owed > 0; ) {
    const head = bytes[end]
    if (head === undefined) return undefined
    owed += valuesIn(bytes, end, head) - 1
    end += 1 + bytesAfter(bytes, end, head)
  }
  return end <= bytes.length ? end : undefined
}

/** Counts one value in the innermost list or map, and closes those that are complete. */
function closeFull(missing: number[]): void {
  for (let last = missing.length - 1; last >= 0; last--) {
    const left = (missing[last] ?? 0) - 1
    missing[last] = left
    if (left > 0) return
    missing.pop()
  }
}

/** Returns the number of values in the list or map that begins here. Keys count as values. */
export function valuesIn(bytes: Uint8Array, at: number, head: number): number {
  if (head >= 0x80 && head <= 0x8f) return (head & 0x0f) * 2
  if (head >= 0x90 && head <= 0x9f) return head & 0x0f
  if (head === 0xdc) return sizeAt(bytes, at + 1, 2)
  if (head === 0xdd) return sizeAt(bytes, at + 1, 4)
  if (head === 0xde) return sizeAt(bytes, at + 1, 2) * 2
  if (head === 0xdf) return sizeAt(bytes, at + 1, 4) * 2
  return 0
}

/** Returns the number of bytes of the value after its first byte, without the values inside it. */
function bytesAfter(bytes: Uint8Array, at: number, head: number): number {
  if (head >= 0xa0 && head <= 0xbf) return head & 0x1f
  if (head < 0xc0 || head >= 0xe0) return 0
  switch (head) {
    case 0xc4:
    case 0xd9:
      return 1 + sizeAt(bytes, at + 1, 1)
    case 0xc5:
    case 0xda:
      return 2 + sizeAt(bytes, at + 1, 2)
    case 0xc6:
    case 0xdb:
      return 4 + sizeAt(bytes, at + 1, 4)
    case 0xc7:
      return 2 + sizeAt(bytes, at + 1, 1)
    case 0xc8:
      return 3 + sizeAt(bytes, at + 1, 2)
    case 0xc9:
      return 5 + sizeAt(bytes, at + 1, 4)
    case 0xcc:
    case 0xd0:
      return 1
    case 0xcd:
    case 0xd1:
    case 0xdc:
    case 0xde:
      return 2
    case 0xca:
    case 0xce:
    case 0xd2:
    case 0xdd:
    case 0xdf:
      return 4
    case 0xcb:
    case 0xcf:
    case 0xd3:
      return 8
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
      return 1 + (1 << (head - 0xd4))
    default:
      return 0
  }
}

function sizeAt(bytes: Uint8Array, at: number, width: 1 | 2 | 4): number {
  let size = 0
  for (let i = at; i < at + width; i++) size = size * 256 + (bytes[i] ?? 0)
  return size
}

/** Returns true if a decoded value nests lists and records deeper than `left` levels. */
export function isTooDeep(value: unknown, left: number): boolean {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return false
  if (left === 0) return true
  if (Array.isArray(value)) return value.some((item) => isTooDeep(item, left - 1))
  for (const key in value) {
    if (isTooDeep((value as Record<string, unknown>)[key], left - 1)) return true
  }
  return false
}
