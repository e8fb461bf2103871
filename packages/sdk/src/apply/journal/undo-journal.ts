import { open, rename, rm, rmdir } from 'node:fs/promises'
import { FileRefused, readRegularFile } from '@passover/bus'
import { PassOverError } from '@passover/core'
import { appliedBody, passKey, storedId } from '@passover/schemas'
import { z } from 'zod'
import { isSealed, NoSealingKey, sealOf } from '../../project/seal.js'
import { codeOf, DirectoryHandle, ignoreMissing } from '../files/directory-handle.js'
import type { FileRecord } from '../files/file-swap.js'

/** Folder for the journal of changes in a directory. It is never part of the project. */
const HOME = ['.passover', 'apply'] as const

const owner = z.object({ uid: z.int(), gid: z.int() })

/** One file of a set. Without `before` it did not exist; without `after` it is deleted. */
const fileRecord = z.object({
  path: z.string(),
  before: z.object({ hash: z.string(), mode: z.int(), owner: owner.optional() }).optional(),
  after: z.object({ hash: z.string(), mode: z.int().optional() }).optional(),
}) satisfies z.ZodType<FileRecord>

/** Description of a set that is on disk before the first file changes. The earlier contents are stored beside it. */
export const intent = z.object({
  v: z.literal(1),
  kind: z.enum(['apply', 'undo']),
  /** Identifies the set, its folder and its event. */
  nonce: z.string().regex(/^[0-9a-f]{24}$/),
  /** For an undo: the nonce of the set that is undone. */
  undoes: z.string().optional(),
  key: passKey.extend({ id: storedId }),
  /** Time of the set, in server ms. */
  at: z.number(),
  /** Folders that the set creates, parents first. */
  made: z.array(z.string()),
  files: z.array(fileRecord),
  /** Event to publish once the set is applied. */
  event: appliedBody,
})
export type Intent = z.infer<typeof intent>

/** Progress of a set, according to the marks in its folder. */
export interface StoredSet {
  id: string
  nonce: string
  /** Intent of the set. `undefined` if the set is `foreign`, or if its process was killed before the intent was complete, so that nothing changed. */
  intent: Intent | undefined
  /** True if this user did not write the intent for this directory, or if it is not a regular file in a folder. Such a set is never acted upon. */
  foreign: boolean
  /** True if every file is in place. */
  applied: boolean
  /** True if its event is stored. */
  told: boolean
  /** True if it was rolled back except for files that somebody changed since. Only their earlier content is kept. */
  left: boolean
}

/** Name of the intent file: a line with the seal, then JSON. */
const INTENT = 'intent'
/** Maximum size of that file in bytes, far above that of an output's list of files. The list may come from a repository. */
const MAX_INTENT_BYTES = 64 * 1024 * 1024
export type Mark = 'applied' | 'told' | 'left'

/** Opens the journal folder of a directory. Returns `undefined` if there is none yet. Throws if it cannot be created or is not trusted. */
export async function openHome(directory: string, make: 'make' | 'only_look'): Promise<DirectoryHandle | undefined> {
  const made: string[] = []
  const reached = await DirectoryHandle.reach(directory, HOME, make === 'make' ? (path) => made.push(path) : undefined)
  if (reached.kind === 'refused') throw new PassOverError('E013', `.passover/apply cannot be used: ${reached.why}`)
  if (reached.kind === 'absent') return undefined
  if (made.includes(HOME[0])) await ignoreByGit(directory)
  return reached.folder
}

async function ignoreByGit(directory: string): Promise<void> {
  const reached = await DirectoryHandle.reach(directory, [HOME[0]])
  if (reached.kind !== 'folder') return
  await using folder = reached.folder
  await writeDurably(folder, '.gitignore', Buffer.from('*\n'))
}

/** Opens the folder of a set. */
export async function openSet(directory: string, { id, nonce }: { id: string; nonce: string }, make?: 'make'): Promise<DirectoryHandle> {
  const reached = await DirectoryHandle.reach(directory, [...HOME, id, nonce], make && (() => undefined))
  if (reached.kind !== 'folder') throw new Error(`the record of ${id} cannot be used`)
  return reached.folder
}

/** Lists all sets in a directory, or those of one pass, in the order in which they began. */
export async function listSets(directory: string, home: DirectoryHandle, only?: string): Promise<StoredSet[]> {
  const sets: StoredSet[] = []
  for (const id of await home.names()) {
    if (id.startsWith('lock-') || (only !== undefined && id !== only)) continue
    const reached = await DirectoryHandle.reach(directory, [...HOME, id])
    if (reached.kind !== 'folder') continue
    await using folder = reached.folder
    for (const nonce of await folder.names()) if (/^[0-9a-f]{24}$/.test(nonce)) sets.push(await readSet(directory, { id, nonce }))
  }
  return sets.sort((a, b) => (a.intent?.at ?? 0) - (b.intent?.at ?? 0))
}

async function readSet(directory: string, { id, nonce }: { id: string; nonce: string }): Promise<StoredSet> {
  const reached = await DirectoryHandle.reach(directory, [...HOME, id, nonce])
  if (reached.kind !== 'folder') return { id, nonce, intent: undefined, foreign: true, applied: false, told: false, left: false }
  await using folder = reached.folder
  const names = await folder.names()
  const sealed = await readRegularFile(folder.at(INTENT), { max: MAX_INTENT_BYTES }).catch(ignoreUnreadable)
  const [seal, text = ''] = sealed?.toString().split('\n', 2) ?? []
  const foreign = seal !== undefined && !isSealed(directory, text, seal)
  const parsed = seal === undefined || foreign ? undefined : intent.parse(JSON.parse(text))
  if (parsed && (parsed.nonce !== nonce || parsed.key.id !== id))
    throw new Error(`the record in .passover/apply/${id} belongs to another pass`)
  const has = (mark: Mark) => names.includes(mark)
  return { id, nonce, intent: parsed, foreign, applied: has('applied'), told: has('told'), left: has('left') }
}

/** Treats a file that only another user can read, a symbolic link and a device as a file without a valid seal. */
function ignoreUnreadable(error: unknown): string | undefined {
  return error instanceof FileRefused || codeOf(error) === 'EACCES' ? '' : ignoreMissing(error)
}

/** Writes a sealed intent. From now on a kill can be recovered. */
export async function writeIntent(directory: string, folder: DirectoryHandle, made: Intent): Promise<void> {
  const text = JSON.stringify(made)
  await writeDurably(folder, INTENT, Buffer.from(`${sealIntent(directory, text)}\n${text}`))
}

/** Writes a file atomically and syncs it to disk. */
export async function writeDurably(folder: DirectoryHandle, name: string, bytes: Buffer): Promise<void> {
  const beside = `${name}.new`
  await rm(folder.at(beside), { force: true })
  await using file = await open(folder.at(beside), 'wx', 0o600)
  await file.writeFile(bytes)
  await file.sync()
  await rename(folder.at(beside), folder.at(name))
  await folder.sync()
}

export function markSet(folder: DirectoryHandle, mark: Mark): Promise<void> {
  return writeDurably(folder, mark, Buffer.alloc(0))
}

/** Returns the file name of an earlier content in the folder of its set. */
export const bytesName = (index: number): string => `before-${index}`

/** Returns the path of the earlier content of a file, relative to the directory. */
export function pathOfBytes({ id, nonce }: { id: string; nonce: string }, index: number): string {
  return [...HOME, id, nonce, bytesName(index)].join('/')
}

/** Deletes the earlier contents of a set, except for the files with these indexes. */
export async function removeBytes(directory: string, set: { id: string; nonce: string }, but: readonly number[] = []): Promise<void> {
  await using folder = await openSet(directory, set)
  const kept = but.map(bytesName)
  for (const name of await folder.names())
    if (name.startsWith('before-') && !kept.includes(name)) await rm(folder.at(name), { force: true })
}

/** Deletes the record of a set. Deletes its intent first, so that a partially deleted record is not recovered. */
export async function removeSet(directory: string, { id, nonce }: { id: string; nonce: string }): Promise<void> {
  const reached = await DirectoryHandle.reach(directory, [...HOME, id])
  if (reached.kind !== 'folder') return
  await using folder = reached.folder
  await rm(`${folder.at(nonce)}/${INTENT}`, { force: true })
  await rm(folder.at(nonce), { recursive: true, force: true })
  await using home = await openHome(directory, 'only_look')
  await (home && rmdir(home.at(id)).catch(() => undefined))
}

/** Seals an intent. Throws E030 if no key of this user is available: then nothing is applied. */
function sealIntent(directory: string, text: string): string {
  try {
    return sealOf(directory, text)
  } catch (error) {
    if (!(error instanceof NoSealingKey)) throw error
    throw new PassOverError('E030', `${error.message}; changes cannot be applied without it`, { path: error.path })
  }
}
