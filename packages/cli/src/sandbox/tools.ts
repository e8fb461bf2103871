import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, isAbsolute, join } from 'node:path'

const NAMES = ['sh', 'env', 'bwrap', 'unshare', 'setpriv'] as const

/** Path of each program that confines commands, by name. */
export type Tools = ReadonlyMap<string, string>

/**
 * Finds the programs that confine commands. They run outside of the sandbox, so they are located once, when the worker starts: a program that a
 * command puts into a folder of PATH later is not used. `npx` and `npm run` add a `node_modules/.bin` of each folder above the project to PATH, and a
 * command could create missing ones, so these folders are skipped too.
 */
export function findTools(path: string | undefined): Tools {
  const folders = (path ?? '').split(delimiter).filter((folder) => isAbsolute(folder) && !/[\\/]node_modules[\\/]\.bin[\\/]?$/.test(folder))
  const found = new Map<string, string>()
  for (const name of NAMES) {
    const file = folders.map((folder) => join(folder, name)).find(isProgram)
    if (file !== undefined) found.set(name, file)
  }
  return found
}

/** True if a path is a file that this user may execute. */
export function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}
