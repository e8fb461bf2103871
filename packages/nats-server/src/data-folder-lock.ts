import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { isAlive, processStarted } from './process-liveness.js'

/**
 * Holder of a data folder: the server's process and the process that manages it. Start times distinguish a process from a later one with the same
 * pid.
 */
export interface Holder {
  owner: number
  owner_started: string
  server?: number
  server_started?: string
  url?: string
}

/** Another process runs a server on this folder. */
export class FolderInUse extends Error {
  override readonly name = 'FolderInUse'
  constructor(
    readonly folder: string,
    readonly holder: Holder,
  ) {
    super(`process ${holder.owner} is running a server on ${folder}${holder.url ? ` at ${holder.url}` : ''}`)
  }
}

/**
 * Creates the lock file for this process. Returns the lock of a holder that no longer runs, if any, whose server may still be running. Throws
 * FolderInUse.
 */
export function takeLock(file: string, folder: string): Holder | undefined {
  const mine: Holder = { owner: process.pid, owner_started: processStarted(process.pid) ?? '' }
  let left: Holder | undefined
  for (;;) {
    const fresh = `${file}.${process.pid}`
    writeFileSync(fresh, JSON.stringify(mine), { mode: 0o600 })
    try {
      // A link appears together with its content, so that no reader sees a partial file.
      linkSync(fresh, file)
      return left
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    } finally {
      rmSync(fresh, { force: true })
    }
    const holder = readLock(file)
    if (holder && isAlive(holder.owner, holder.owner_started)) throw new FolderInUse(folder, holder)
    left = holder ?? left
    setAside(file, holder)
  }
}

/** Removes a stale lock file, and restores it if another process has replaced it meanwhile. */
function setAside(file: string, judged: Holder | undefined): void {
  const aside = `${file}.left-${process.pid}`
  try {
    renameSync(file, aside)
  } catch {
    return
  }
  try {
    if (JSON.stringify(readLock(aside)) !== JSON.stringify(judged)) linkSync(aside, file)
  } catch {
    // Another process took the lock meanwhile; the next iteration reads it.
  }
  rmSync(aside, { force: true })
}

export function readLock(file: string): Holder | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Holder
  } catch {
    return undefined
  }
}

/** Adds the server's process and address to the lock file. */
export function writeLock(file: string, server: { pid: number; url: string }): void {
  const holder: Holder = {
    owner: process.pid,
    owner_started: processStarted(process.pid) ?? '',
    server: server.pid,
    server_started: processStarted(server.pid) ?? '',
    url: server.url,
  }
  const fresh = `${file}.${process.pid}`
  writeFileSync(fresh, JSON.stringify(holder), { mode: 0o600 })
  renameSync(fresh, file)
}

export function releaseLock(file: string): void {
  if (readLock(file)?.owner === process.pid) rmSync(file, { force: true })
}
