import { foldCase } from '@passover/core'

/** A path below a directory, split into names, or the reason why nothing may be written there. */
export type PathCheck = { ok: true; path: string; names: string[] } | { ok: false; why: string }

/** Names that Windows reserves for devices, with any extension. */
const RESERVED = /^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])( *\..*)?$/
/** Folders that belong to their owner alone: history and hooks of the repository, credentials and journals of Passover. */
const NEVER: ReadonlySet<string> = new Set(['.git', '.passover'])
/** Short names that Windows may give to `.git` and `.passover`. */
const SHORT_NAME = /^(git|passov|gi[0-9a-f]{4}|pa[0-9a-f]{4})~[0-9]+$/
const MAX_NAME_BYTES = 255
/** Maximum number of folders in a path, its file included. */
const MAX_NAMES = 100

/**
 * Checks that a path stays below its directory on every file system that a project may be checked out on. Reads nothing; `DirectoryHandle` handles
 * symbolic links.
 */
export function checkPath(given: string): PathCheck {
  const out = (why: string): PathCheck => ({ ok: false, why })
  if (hasControls(given)) return out('the path has a control character')
  if (given.includes('\\')) return out('the path has a backslash, which is a separator on Windows')
  if (given.startsWith('/') || /^[A-Za-z]:/.test(given)) return out('the path is absolute')
  if (given.includes(':')) return out('the path has a colon, which names a drive or a stream on Windows')
  if (given.endsWith('/')) return out('the path names a directory')
  const names = given.split('/').filter((name) => name !== '' && name !== '.')
  if (names.includes('..')) return out('the path leads out of the directory')
  if (names.length === 0) return out('the path names the directory itself')
  if (names.length > MAX_NAMES) return out(`the path has more than ${MAX_NAMES} names`)
  for (const name of names) {
    const why = judgeName(name)
    if (why !== undefined) return out(why)
  }
  return { ok: true, path: names.join('/'), names }
}

function judgeName(name: string): string | undefined {
  if (/[. ]$/.test(name)) return `"${name}" ends in a dot or a space, which Windows removes`
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) return 'a name in the path is too long'
  const folded = foldCase(name)
  if (RESERVED.test(folded)) return `"${name}" is a device name on Windows`
  if (NEVER.has(folded) || SHORT_NAME.test(folded)) return `Passover never writes to ${NEVER.has(folded) ? folded : name}`
  return undefined
}

function hasControls(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at)
    if (unit < 0x20 || unit === 0x7f) return true
  }
  return false
}

interface PathNode {
  name: string
  /** The path that was added first, up to this name. */
  path: string
  /** True if a path ends here. */
  isFile: boolean
  above: PathNode | undefined
  /** By their folded names. */
  below: Map<string, PathNode>
}

/**
 * The paths of a set of changes, as a tree of names. An agent chooses the paths, so work and memory grow with their length: each name is folded once,
 * and no leading part of a path is copied.
 */
export class PathTree {
  readonly #root = nodeOf('', '', undefined)
  readonly #ends = new Map<string, PathNode>()
  readonly #twins = new Map<string, string>()

  constructor(paths: Iterable<string>) {
    for (const path of paths) this.#add(path)
  }

  /** Returns an earlier path, or a folder of one, that a case-insensitive file system would take for this path or one of its folders. */
  twinOf(path: string): string | undefined {
    return this.#twins.get(path)
  }

  /** Returns another path of the set in whose place this path needs a folder. */
  fileAbove(path: string): string | undefined {
    for (let node = this.#ends.get(path)?.above; node; node = node.above) if (node.isFile) return node.path
    return undefined
  }

  #add(path: string): void {
    let node = this.#root
    let end = -1
    let twin: string | undefined
    for (const name of path.split('/')) {
      end += name.length + 1
      const folded = foldCase(name)
      const known = node.below.get(folded)
      const next = known ?? nodeOf(name, path.slice(0, end), node)
      if (!known) node.below.set(folded, next)
      else if (known.name !== name) twin ??= known.path
      node = next
    }
    node.isFile = true
    this.#ends.set(path, node)
    if (twin !== undefined) this.#twins.set(path, twin)
  }
}

function nodeOf(name: string, path: string, above: PathNode | undefined): PathNode {
  return { name, path, isFile: false, above, below: new Map() }
}
