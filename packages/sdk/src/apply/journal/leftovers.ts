import { versionOf } from '../files/file-swap.js'
import { bytesName, markSet, openSet, pathOfBytes, removeBytes, removeSet, type StoredSet } from './undo-journal.js'

/** A file that was not put back: somebody changed it after its set had. */
export interface LeftoverFile {
  path: string
  /** Where what stood in it before the set is kept, below the directory; absent: there was none, or the set had not come to it. */
  kept?: string | undefined
}

/** Forgets a set that was put back, but for what stood in these of its files: nobody else has it. Gives their paths there. */
export async function forgetExcept(directory: string, set: StoredSet, indexes: readonly number[]): Promise<Map<number, string>> {
  const kept = new Map(indexes.filter((index) => set.intent?.files[index]?.before).map((index) => [index, pathOfBytes(set, index)]))
  if (kept.size === 0) {
    await removeSet(directory, set)
    return kept
  }
  await using folder = await openSet(directory, set)
  // Marked first: what is put back is not looked for again.
  await markSet(folder, 'left')
  await removeBytes(directory, set, [...kept.keys()])
  return kept
}

/** What is kept still. Once somebody has deleted it, or the file is as it was, its set is forgotten. */
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

/** Added to why a set could not be finished. */
export function leftoversText(left: readonly LeftoverFile[]): string {
  if (left.length === 0) return ''
  const names = left.map(({ path, kept }) => (kept === undefined ? path : `${path} (what stood there before: ${kept})`))
  return `; ${names.join(', ')} was changed by somebody else meanwhile and left alone`
}
