/**
 * @passover/core/changes: the view of file changes for the person who approves them.
 *
 * - {@link showFiles}: diffs, sizes and warnings of what would be written; bounded in size and time.
 * - {@link contentBytes}, {@link textForm}: a modification's content as bytes, and bytes as text.
 */
export { contentBytes, type TextForm, textForm } from './content.js'
export { type FileEffect, type FileSide, proposedEffect, type ShowOptions, showFiles, showProposals } from './show-files.js'
