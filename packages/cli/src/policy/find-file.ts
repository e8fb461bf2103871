import { existsSync, lstatSync, readlinkSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { filesUpward, ignoredText } from '@passover/sdk/internal/project'
import { findNodeAtLocation, parseTree } from 'jsonc-parser'
import { CliFailure } from '../errors.js'
import { fileErrorReason } from '../file-error.js'
import { decodeText, readFileUpTo } from '../input/read-file.js'

/** A project's policy, in its own file or under a key of a larger one. */
export interface PolicyFile {
  /** Absolute path. */
  path: string
  /** Path for messages, relative to the directory of the command. */
  shown: string
  text: string
  /** JSON path of the document in the file: [] or ['pass_over']. */
  within: string[]
}

const POLICY_PATH = join('.opencode', 'pass-over.json')
const SHARED_CONFIG_PATH = join('.opencode', 'config.json')
const KEY = 'pass_over'

/** Options for locating the policy file. */
export interface PolicyFileOptions {
  /** Accepts a named file that does not exist yet and will be written. */
  mayBeNew?: true
  directory: string
  /** Path given as an argument of the command. */
  path?: string | undefined
  env: NodeJS.ProcessEnv
  /** Receives notes about files that are ignored because they are not trusted. */
  terminal?: { note(text: string): void } | undefined
}

/**
 * Finds the project's policy file: a named one, else PASSOVER_CONFIG, else `.opencode/pass-over.json` or the key `pass_over` of
 * `.opencode/config.json`. The latter two are searched upward within the repository; files that others could have written are skipped. Returns
 * `undefined` if there is none. Throws CliFailure E041 or E030 if a named file does not exist or cannot be read.
 */
export function findPolicyFile({ directory, path, env, mayBeNew, terminal }: PolicyFileOptions): PolicyFile | undefined {
  const named = path ?? env.PASSOVER_CONFIG
  if (named && mayBeNew && !existsSync(resolve(directory, named))) return undefined
  if (named) return readNamed(resolve(directory, named), { directory, by: path ? 'it' : 'PASSOVER_CONFIG' })
  let found: PolicyFile | undefined
  for (const { path: own, fault } of filesUpward(directory, [POLICY_PATH, SHARED_CONFIG_PATH])) {
    // In the folder of the first match, the other file is checked too. Folders above may belong to other projects.
    if (found && dirname(found.path) !== dirname(own)) break
    if (fault) {
      terminal?.note(ignoredText({ path: own, ...fault }))
      continue
    }
    if (found) {
      const second = peek(own, directory)
      if (second) terminal?.note(`Ignored ${KEY} in ${second.shown}, because ${found.shown} exists. Remove one of them`)
      break
    }
    const file = read(own, directory)
    // The shared file is general configuration, which need not contain a policy.
    if (own.endsWith(POLICY_PATH) || file.within.length > 0) found = file
  }
  return found
}

/** Reads the other file if it also has a policy. Errors are ignored, because this file is not used. */
function peek(path: string, directory: string): PolicyFile | undefined {
  try {
    const file = read(path, directory)
    return file.within.length > 0 ? file : undefined
  } catch {
    return undefined
  }
}

/** Returns the path of a policy file that does not exist yet. */
export function newPolicyFile({ directory, path, env }: PolicyFileOptions): string {
  return resolve(directory, path ?? env.PASSOVER_CONFIG ?? POLICY_PATH)
}

function readNamed(path: string, { directory, by }: { directory: string; by: string }): PolicyFile {
  if (!existsSync(path)) {
    if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) {
      const to = readlinkSync(path)
      throw new CliFailure('E041', `${path}${by === 'it' ? '' : ` (${by})`} is a link to ${to}, which does not exist`, {
        hint: 'correct or remove the link',
      })
    }
    const hint = 'give the path of a policy file, or omit it to search upward for .opencode/pass-over.json'
    throw new CliFailure('E041', `there is no file ${path}${by === 'it' ? '' : ` (${by})`}`, { hint })
  }
  return read(path, directory)
}

function read(path: string, directory: string): PolicyFile {
  const near = relative(resolve(directory), path)
  const shown = near !== '' && near.length < path.length ? near : path
  try {
    const bytes = readFileUpTo(path, MAX_BYTES)
    if (bytes.kind === 'not a file') throw unreadable(shown, 'it is not a file')
    if (bytes.kind === 'too large') throw unreadable(shown, `it has more than ${MAX_BYTES} bytes`)
    const decoded = decodeText(bytes.bytes)
    if (decoded.kind === 'no text') throw unreadable(shown, decoded.why, 'save it as UTF-8')
    const { text } = decoded
    return { path, shown, text, within: holdsKey(text) ? [KEY] : [] }
  } catch (error) {
    const why = fileErrorReason(error)
    if (why === undefined) throw error
    throw unreadable(shown, why)
  }
}

/** Maximum size of a policy file, far above what a valid policy needs. */
const MAX_BYTES = 64 * 1024 * 1024

function unreadable(shown: string, why: string, hint = 'make it a readable file'): CliFailure {
  return new CliFailure('E030', `${shown} cannot be read: ${why}`, { hint })
}

function holdsKey(text: string): boolean {
  const root = parseTree(text, [], { allowTrailingComma: true })
  return root !== undefined && findNodeAtLocation(root, [KEY]) !== undefined
}
