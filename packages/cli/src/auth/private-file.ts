import { chmodSync, renameSync, writeFileSync } from 'node:fs'

/** Writes a file that only its owner can read. The write is atomic. */
export function writePrivateFile(path: string, text: string): void {
  const draft = `${path}.${process.pid}`
  writeFileSync(draft, text, { mode: 0o600 })
  // A draft that was left behind keeps its own mode, so the mode is set again.
  chmodSync(draft, 0o600)
  renameSync(draft, path)
}
