import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, isAbsolute, join } from 'node:path'

const NAMES = ['sh', 'env', 'bwrap', 'unshare', 'setpriv'] as const

/** The path of each program that confines commands, by its name. */
export type Tools = ReadonlyMap<string, string>

/**
 * Finds the programs that confine commands. They run outside of the sandbox, so they are looked for once, when the worker starts: a program that a
 * command puts into a folder of PATH does not count. `npx` and `npm run` put a `node_modules/.bin` of each folder above the project in PATH,
 * which a command can make where there is none: these do not count either.
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

/** Whether a path is a file that this user may run. */
export function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}
