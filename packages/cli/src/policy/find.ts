import { existsSync, readFileSync, statSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { filesUpward, ignoredText } from '@passover/sdk/project'
import { findNodeAtLocation, parseTree } from 'jsonc-parser'
import { CliFailure } from '../failure.js'

/** Where a project's policy stands, in a file of its own or under a key of a bigger one. */
export interface PolicyFile {
  /** Absolute. */
  path: string
  /** As it is told to people: relative to where they are. */
  shown: string
  text: string
  /** The place of the document in the file: [] or ['pass_over']. */
  within: string[]
}

const OWN = join('.opencode', 'pass-over.json')
const SHARED = join('.opencode', 'config.json')
const KEY = 'pass_over'

/** What names the file instead of looking for it. */
export interface Named {
  /** A named file need not be there: it will be written. */
  mayBeNew?: true
  directory: string
  /** An argument of the command. */
  path?: string | undefined
  env: NodeJS.ProcessEnv
  /** Where a file that is not trusted is named. */
  terminal?: { note(text: string): void } | undefined
}

/**
 * The project's policy file: the one that is named, else PASSOVER_CONFIG, else `.opencode/pass-over.json` or the key
 * `pass_over` of `.opencode/config.json`, the nearest one upward within the repository that others cannot have written. Undefined: there is none.
 * CliFailure E041 or E030 for a named one that is not there or cannot be read.
 */
export function findPolicyFile({ directory, path, env, mayBeNew, terminal }: Named): PolicyFile | undefined {
  const named = path ?? env.PASSOVER_CONFIG
  if (named && mayBeNew && !existsSync(resolve(directory, named))) return undefined
  if (named) return readNamed(resolve(directory, named), { directory, by: path ? 'it' : 'PASSOVER_CONFIG' })
  for (const { path: own, fault } of filesUpward(directory, [OWN, SHARED])) {
    if (fault) {
      terminal?.note(ignoredText({ path: own, ...fault }))
      continue
    }
    const file = read(own, directory)
    // The shared file is other people's configuration, which need not be ours at all.
    if (own.endsWith(OWN) || file.within.length > 0) return file
  }
  return undefined
}

/** Where the file would be that a project does not have yet. */
export function newPolicyFile({ directory, path, env }: Named): string {
  return resolve(directory, path ?? env.PASSOVER_CONFIG ?? OWN)
}

function readNamed(path: string, { directory, by }: { directory: string; by: string }): PolicyFile {
  if (!existsSync(path)) {
    const hint = 'give the path of a policy file, or leave it out to look for .opencode/pass-over.json upward'
    throw new CliFailure('E041', `there is no file ${path}${by === 'it' ? '' : ` (${by})`}`, { hint })
  }
  return read(path, directory)
}

function read(path: string, directory: string): PolicyFile {
  const near = relative(resolve(directory), path)
  const shown = near !== '' && near.length < path.length ? near : path
  try {
    if (!statSync(path).isFile()) throw new Error('it is no file')
    const text = readFileSync(path, 'utf8').replace(/^\uFEFF/, '')
    return { path, shown, text, within: holdsKey(text) ? [KEY] : [] }
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new CliFailure('E030', `${shown} cannot be read: ${why}`, { hint: 'make it a readable file' })
  }
}

function holdsKey(text: string): boolean {
  const root = parseTree(text, [], { allowTrailingComma: true })
  return root !== undefined && findNodeAtLocation(root, [KEY]) !== undefined
}
