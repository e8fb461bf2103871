/** Number of characters examined on each side of a cut. A longer grapheme cluster is split, never a surrogate pair. */
const CONTEXT = 64

let segmenter: Intl.Segmenter | undefined

/**
 * Shortens a text to at most `max` UTF-16 code units, the mark included. It cuts between grapheme clusters, so an emoji or a letter
 * with its accents is kept whole or left out.
 *
 * @param mark - Ends a text that was cut; an empty string leaves the cut unmarked.
 * @defaultValue `'…'`
 */
export function cut(text: string, max: number, mark = '…'): string {
  if (text.length <= max) return text
  const room = Math.max(0, Math.floor(max) - mark.length)
  return text.slice(0, boundaryBefore(text, room)) + mark.slice(0, Math.max(0, max))
}

/** Returns the last `max` UTF-16 code units of a text at most, beginning with the mark where it was cut. */
export function cutStart(text: string, max: number, mark = '…'): string {
  if (text.length <= max) return text
  const from = text.length - Math.max(0, Math.floor(max) - mark.length)
  const start = boundaryBefore(text, from)
  return mark.slice(0, Math.max(0, max)) + text.slice(start === from ? from : boundaryAfter(text, from))
}

function boundaryBefore(text: string, at: number): number {
  return around(text, at)?.from ?? at
}

function boundaryAfter(text: string, at: number): number {
  return around(text, at)?.to ?? at
}

/** Returns the grapheme cluster that a cut at this index would split. */
function around(text: string, at: number): { from: number; to: number } | undefined {
  if (at <= 0 || at >= text.length) return undefined
  // Two ASCII characters are never one cluster except CRLF, which may be split.
  if (text.charCodeAt(at - 1) < 0x80 && text.charCodeAt(at) < 0x80) return undefined
  const start = codePointStart(text, Math.max(0, at - CONTEXT))
  segmenter ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' })
  const near = text.slice(start, codePointStart(text, Math.min(text.length, at + CONTEXT)))
  const { index, segment } = segmenter.segment(near).containing(at - start) ?? { index: at - start, segment: '' }
  if (index === at - start) return undefined
  if (index > 0 || start === 0) return { from: start + index, to: start + index + segment.length }
  const point = codePointStart(text, at)
  return point === at ? undefined : { from: point, to: at + 1 }
}

/** Returns the index, or the one before it if the index is inside a surrogate pair. */
function codePointStart(text: string, at: number): number {
  const low = text.charCodeAt(at)
  const high = text.charCodeAt(at - 1)
  return low >= 0xdc00 && low <= 0xdfff && high >= 0xd800 && high <= 0xdbff ? at - 1 : at
}
