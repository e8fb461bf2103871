import type { Segment } from '@passover/core'
import type { Context } from '../context.js'
import { findPolicyFile } from './find.js'
import { readPolicyFile } from './read.js'

/** The line of the project's policy file at which a JSON path of the live policy stands. Undefined: there is none, or no such file. */
export function placeInFile(context: Pick<Context, 'directory' | 'env'>, path: string): { file: string; line: number } | undefined {
  try {
    const file = findPolicyFile(context)
    const line = file && readPolicyFile(file, undefined).lineOf(segmentsOf(path))
    return line === undefined ? undefined : { file: file?.shown ?? '', line }
  } catch {
    // The refusal is what matters; a file that cannot be read is another matter.
    return undefined
  }
}

const SEGMENT = /\.([A-Za-z_$][\w$]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]/g

/** The parts of a path as core writes it. */
export function segmentsOf(path: string): Segment[] {
  return [...path.matchAll(SEGMENT)].map(
    ([, word, index, quoted]) => word ?? (index === undefined ? String(JSON.parse(quoted ?? '""')) : Number(index)),
  )
}
