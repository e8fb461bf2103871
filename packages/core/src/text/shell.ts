import { nameHidden, replaceHidden } from './hidden.js'

const BARE = /^[A-Za-z0-9_@%+:,./-][A-Za-z0-9_@%+=:,./-]*$/

/**
 * Quotes a text as one word of a POSIX shell, for commands that people copy. Text with line feeds or hidden characters is written in
 * `$'…'` (bash, zsh, ksh), so that what is copied is what is shown.
 */
export function shellWord(text: string): string {
  if (BARE.test(text)) return text
  const hides = replaceHidden(text, nameHidden) !== text
  if (!hides) return `'${text.replaceAll("'", "'\\''")}'`
  return `$'${replaceHidden(text.replace(/[\\']/g, '\\$&'), ansiC)}'`
}

/** Encodes UTF-8 bytes as `\xNN`. A lone surrogate has none and becomes U+FFFD. */
function ansiC(character: string): string {
  return Array.from(new TextEncoder().encode(character), (byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')
}
