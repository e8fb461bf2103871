import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { CliFailure } from './failure.js'

/** A JSON file that a flag names. E030: it cannot be read, or is none. */
export function readJsonFile(directory: string, path: string): unknown {
  try {
    return JSON.parse(readFileSync(resolve(directory, path), 'utf8'))
  } catch (error) {
    throw new CliFailure('E030', `${path}: ${error instanceof Error ? error.message : String(error)}`)
  }
}
