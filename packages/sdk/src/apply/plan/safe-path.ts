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

/** Returns, for each path, another one that a case-insensitive file system would confuse with it. Compares all leading folders too. */
export function caseTwins(paths: readonly string[]): Map<string, string> {
  const first = new Map<string, string>()
  const twins = new Map<string, string>()
  for (const path of paths) {
    let above = ''
    for (const name of path.split('/')) {
      const at = above === '' ? name : `${above}/${name}`
      const other = first.get(foldCase(at))
      if (other === undefined) first.set(foldCase(at), at)
      else if (other !== at && !twins.has(path)) twins.set(path, other)
      above = at
    }
  }
  return twins
}
