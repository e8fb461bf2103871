import { open, readFile, rename, rm, rmdir } from 'node:fs/promises'
import { PassOverError } from '@passover/core'
import { appliedBody, passKey, storedId } from '@passover/schemas'
import { z } from 'zod'
import { codeOf, DirectoryHandle, ignoreMissing } from '../files/directory-handle.js'
import type { FileRecord } from '../files/file-swap.js'
import { isSealed, sealOf } from './journal-seal.js'

/** Where a directory keeps what was changed in it: never part of the project. */
const HOME = ['.passover', 'apply'] as const

const owner = z.object({ uid: z.int(), gid: z.int() })

/** One file of a set. Absent `before`: it was not there; absent `after`: it is deleted. */
const fileRecord = z.object({
  path: z.string(),
  before: z.object({ hash: z.string(), mode: z.int(), owner: owner.optional() }).optional(),
  after: z.object({ hash: z.string(), mode: z.int().optional() }).optional(),
}) satisfies z.ZodType<FileRecord>

/** What is about to be done, written down and on disk before the first file changes. The bytes that were there stand beside it. */
export const intent = z.object({
  v: z.literal(1),
  kind: z.enum(['apply', 'undo']),
  /** Names this set, its folder and its event. */
  nonce: z.string().regex(/^[0-9a-f]{24}$/),
  /** Of an undo: the set that is put back. */
  undoes: z.string().optional(),
  key: passKey.extend({ id: storedId }),
  /** Server ms. */
  at: z.number(),
  /** Folders that are not there yet, the upper first. */
  made: z.array(z.string()),
  files: z.array(fileRecord),
  /** Told once it is done. */
  event: appliedBody,
})
export type Intent = z.infer<typeof intent>

/** How far a set has come, by the marks in its folder. */
export interface StoredSet {
  id: string
  nonce: string
  /** Undefined: killed before the intent was whole, so that nothing was changed, or `foreign`. */
  intent: Intent | undefined
  /** It has an intent that this user did not write for this directory: it is never acted upon. */
  foreign: boolean
  /** Every file is in place. */
  applied: boolean
  /** Its event is stored. */
  told: boolean
  /** It was put back, but for files that somebody changed since: only what stood in those is kept. */
  left: boolean
}

/** Its seal in the first line, then JSON. */
const INTENT = 'intent'
export type Mark = 'applied' | 'told' | 'left'

/** The folder of what was applied in a directory; undefined: none yet. Throws where it cannot be made or is not to be trusted. */
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

/** The folder of one set. */
export async function openSet(directory: string, { id, nonce }: { id: string; nonce: string }, make?: 'make'): Promise<DirectoryHandle> {
  const reached = await DirectoryHandle.reach(directory, [...HOME, id, nonce], make && (() => undefined))
  if (reached.kind !== 'folder') throw new Error(`the record of ${id} cannot be used`)
  return reached.folder
}

/** Every set that left its mark here, in the order in which they were begun; those of one pass, where its id is given. */
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
  await using folder = await openSet(directory, { id, nonce })
  const names = await folder.names()
  const sealed = await readFile(folder.at(INTENT), 'utf8').catch(ignoreUnreadable)
  const [seal, text = ''] = sealed?.split('\n', 2) ?? []
  const foreign = seal !== undefined && !isSealed(directory, text, seal)
  const parsed = seal === undefined || foreign ? undefined : intent.parse(JSON.parse(text))
  if (parsed && (parsed.nonce !== nonce || parsed.key.id !== id))
    throw new Error(`the record in .passover/apply/${id} is of something else`)
  const has = (mark: Mark) => names.includes(mark)
  return { id, nonce, intent: parsed, foreign, applied: has('applied'), told: has('told'), left: has('left') }
}

/** What another user wrote here is theirs alone to read: it has no seal of this one. */
function ignoreUnreadable(error: unknown): string | undefined {
  return codeOf(error) === 'EACCES' ? '' : ignoreMissing(error)
}

/** Writes an intent down, sealed: from then on a kill is settled by it. */
export async function writeIntent(directory: string, folder: DirectoryHandle, made: Intent): Promise<void> {
  const text = JSON.stringify(made)
  await writeDurably(folder, INTENT, Buffer.from(`${sealOf(directory, text)}\n${text}`))
}

/** A whole file or none, and on disk. */
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

/** What the bytes are called in their set's folder. */
export const bytesName = (index: number): string => `before-${index}`

/** Where the bytes stand that were in a file before a set, below the directory. */
export function pathOfBytes({ id, nonce }: { id: string; nonce: string }, index: number): string {
  return [...HOME, id, nonce, bytesName(index)].join('/')
}

/** The bytes that stood there before a set: nobody wants them back, but those of some files. */
export async function removeBytes(directory: string, set: { id: string; nonce: string }, but: readonly number[] = []): Promise<void> {
  await using folder = await openSet(directory, set)
  const kept = but.map(bytesName)
  for (const name of await folder.names())
    if (name.startsWith('before-') && !kept.includes(name)) await rm(folder.at(name), { force: true })
}

/** Forgets a set: its intent first, so that a half-removed one is no longer anything to finish. */
export async function removeSet(directory: string, { id, nonce }: { id: string; nonce: string }): Promise<void> {
  const reached = await DirectoryHandle.reach(directory, [...HOME, id])
  if (reached.kind !== 'folder') return
  await using folder = reached.folder
  await rm(`${folder.at(nonce)}/${INTENT}`, { force: true })
  await rm(folder.at(nonce), { recursive: true, force: true })
  await using home = await openHome(directory, 'only_look')
  await (home && rmdir(home.at(id)).catch(() => undefined))
}
