import { versionOf } from '../files/file-swap.js'
import { bytesName, markSet, openSet, pathOfBytes, removeBytes, removeSet, type StoredSet } from './undo-journal.js'

/** A file that was not restored because another process changed it after the set was written. */
export interface LeftoverFile {
  path: string
  /** Path of the saved earlier content, relative to the directory. Absent if there was none, or if the set had not reached the file. */
  kept?: string | undefined
}

/**
 * Deletes the record of a rolled-back set, except for the earlier content of the given files, of which no other copy exists. Returns the paths of
 * that content.
 */
export async function forgetExcept(directory: string, set: StoredSet, indexes: readonly number[]): Promise<Map<number, string>> {
  const kept = new Map(indexes.filter((index) => set.intent?.files[index]?.before).map((index) => [index, pathOfBytes(set, index)]))
  if (kept.size === 0) {
    await removeSet(directory, set)
    return kept
  }
  await using folder = await openSet(directory, set)
  // Marked first, so that the restored files are not checked again.
  await markSet(folder, 'left')
  await removeBytes(directory, set, [...kept.keys()])
  return kept
}

/** Returns the content that is still kept. Deletes the record of the set once somebody has deleted that content or restored the files. */
export async function remainingLeftovers(directory: string, set: StoredSet): Promise<LeftoverFile[]> {
  const left: LeftoverFile[] = []
  for (const [index, file] of set.intent?.files.entries() ?? []) {
    if ((await hasBytes(directory, set, index)) && (await versionOf(directory, file)) !== 'before')
      left.push({ path: file.path, kept: pathOfBytes(set, index) })
  }
  if (left.length === 0) await removeSet(directory, set)
  return left
}

async function hasBytes(directory: string, set: StoredSet, index: number): Promise<boolean> {
  await using folder = await openSet(directory, set)
  return (await folder.names()).includes(bytesName(index))
}

/** Returns a text to append to the reason why a set was not completed. */
export function leftoversText(left: readonly LeftoverFile[]): string {
  if (left.length === 0) return ''
  const names = left.map(({ path, kept }) => (kept === undefined ? path : `${path} (previous content: ${kept})`))
  return `; ${names.join(', ')} was changed by another process in the meantime and was not touched`
}
