/**
 * @passover/core/text: how text from agents is shown, cut and quoted. Every boundary (terminal, log, CSV, shell, page) uses these
 * functions; no other module has escaping rules of its own.
 *
 * - {@link visible}, {@link visibleLines}, {@link oneLine}: text for people.
 * - {@link hiddenIn}: which hidden characters a text has, for warnings.
 * - {@link cut}, {@link cutStart}: shorter text, without splitting a character.
 * - {@link printableJson}, {@link escapeJson}: JSON that can be printed to a terminal. {@link logOptions} does this for pino, and
 *   logs repeated lines less often.
 * - {@link shellWord}: one argument of a command that is shown to be copied.
 */
export { cut, cutStart } from './cut.js'
export { hiddenIn } from './hidden.js'
export { escapeJson, printableJson } from './json.js'
export { logOptions } from './log.js'
export { Repeats } from './repeats.js'
export { shellWord } from './shell.js'
export { oneLine, visible, visibleLines } from './visible.js'
