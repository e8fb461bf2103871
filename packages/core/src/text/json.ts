import { isPlain, replaceHidden } from './hidden.js'

/**
 * Serializes a value as JSON that is safe to print: control characters, bidirectional controls, line separators and invisible
 * characters are written as `\uXXXX`. It parses to the same value as the output of `JSON.stringify`.
 */
export function printableJson(value: unknown, indent?: number): string {
  return escapeJson(JSON.stringify(value, null, indent) ?? 'null')
}

/** Escapes the hidden characters of JSON text. Outside strings JSON has only line feeds and tabs, which are kept. */
export function escapeJson(json: string): string {
  // Fast path for nearly every log line and indented document: the search for hidden characters takes several times as long.
  if (isPlain(json)) return json
  return replaceHidden(json, (character) => (WHITE_SPACE.has(character) ? character : escaped(character)))
}

const WHITE_SPACE = new Set(['\n', '\t', '\r'])

function escaped(character: string): string {
  let text = ''
  for (let at = 0; at < character.length; at++) text += `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`
  return text
}
