import { chmodSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { usage } from '../errors.js'

/** Writes a file that only its owner can read. The write is atomic. */
export function writePrivateFile(path: string, text: string): void {
  const draft = `${path}.${process.pid}`
  writeFileSync(draft, text, { mode: 0o600 })
  // A draft that was left behind keeps its own mode, so the mode is set again.
  chmodSync(draft, 0o600)
  renameSync(draft, path)
}

/** Checks that {@link writePrivateFile} can write the file, without a change to it. Throws CliFailure E042, or the system error. */
export function checkPrivateFile(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw usage(`${path} cannot be used: it is a folder`, 'name a file in it')
  const draft = `${path}.${process.pid}`
  writeFileSync(draft, '', { mode: 0o600 })
  rmSync(draft)
}
