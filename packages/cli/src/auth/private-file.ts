import { chmodSync, renameSync, writeFileSync } from 'node:fs'

/** Writes a file that only its owner reads, as a whole or not at all. */
export function writePrivateFile(path: string, text: string): void {
  const draft = `${path}.${process.pid}`
  writeFileSync(draft, text, { mode: 0o600 })
  // An umask cannot widen the mode, but a draft that was left behind keeps its own.
  chmodSync(draft, 0o600)
  renameSync(draft, path)
}
