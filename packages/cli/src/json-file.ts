import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { CliFailure } from './failure.js'
import { fileWhy, textOf } from './file-text.js'

/** A JSON file that a flag names. E030: it cannot be read, or is none. */
export function readJsonFile(directory: string, path: string): unknown {
  try {
    const read = textOf(readFileSync(resolve(directory, path)))
    if (read.kind === 'no text') throw new Error(read.why)
    return JSON.parse(read.text)
  } catch (error) {
    throw new CliFailure('E030', `${path}: ${fileWhy(error) ?? (error instanceof Error ? error.message : String(error))}`)
  }
}
