import { lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { gunzipSync } from 'node:zlib'
import type { Context } from '../connection/context.js'
import { isNodeError } from '../connection/project-directory.js'
import { CliFailure, usage } from '../errors.js'
import { PACKAGE } from '../package-info.js'
import { findPolicyFile } from '../policy/find-file.js'
import { shellWord } from '../terminal/text.js'
import { type Dependencies, GITIGNORE, PROJECT_FILES, packageJson, registryDependencies, tarballDependencies } from './project-template.js'

export interface InitRequest {
  directory?: string | undefined
  /** Folder with tarballs of the packages. */
  packages?: string | undefined
}

/** Shown until the packages are published: `npm install` of the new project fails unless a private registry has them. */
const UNPUBLISHED =
  '! The packages of Passover are not published yet: `npm install` fails with E404 unless your registry has them. Without such a registry, create tarballs in a clone of Passover (npm run pack -- <folder>) and run this command again in an empty directory: passover init --packages <folder>'

/** Scope of all packages of Passover: `@passover/`. */
const SCOPE = PACKAGE.slice(0, PACKAGE.indexOf('/') + 1)

/** A command to run next, with a note on what it does if that is not obvious. */
interface Step {
  command: string
  note?: string
}

/**
 * Creates a small project. Existing files that it would share with others (package.json, .gitignore) are kept, and the printed commands then work
 * without them. Throws CliFailure E030 if one of the project's own files exists, before anything is written.
 */
export async function runInit(context: Context, { directory, packages }: InitRequest): Promise<number> {
  const { terminal } = context
  const root = resolve(context.directory, directory ?? '.')
  const tarballs = packages === undefined ? undefined : tarballsIn(resolve(context.directory, packages), root)
  const wanted = tarballs ? tarballDependencies(tarballs) : registryDependencies()
  refuseExisting(root)
  const before = readManifest(root)
  const shared = { 'package.json': packageJson(nameOf(root), wanted), '.gitignore': GITIGNORE }
  const kept = Object.keys(shared).filter((path) => exists(join(root, path)))
  const files = Object.entries({ ...shared, ...PROJECT_FILES }).filter(([path]) => !kept.includes(path))
  for (const [path, text] of files) writeNew(root, path, text)
  const written = files.map(([path]) => path)
  if (tarballs === undefined && terminal.mode === 'human') terminal.note(UNPUBLISHED)
  const next = [...enter(context.directory, root), ...(before ? besides(before, wanted, packages !== undefined) : alone())]
  terminal.show({ directory: root, written, kept, next }, () =>
    [
      `${terminal.colors.green('✓')} Created a project in ${root}: ${written.join(', ')}`,
      ...(kept.length > 0 ? [`  unchanged: ${kept.join(', ')}`] : []),
      '',
      'Next:',
      ...next.map(({ command, note }) => (note ? `  ${command.padEnd(34)} ${terminal.colors.dim(`# ${note}`)}` : `  ${command}`)),
    ].join('\n'),
  )
  return 0
}

/** Throws E030 with every conflicting file. A policy in `.opencode/config.json` is one, because a new policy file would hide it. */
function refuseExisting(root: string): void {
  const found = Object.keys(PROJECT_FILES).filter((path) => exists(join(root, path)))
  const policy = existsAsFolder(root) ? findPolicyFile({ directory: root, env: {} }) : undefined
  if (policy && dirname(dirname(policy.path)) === root && policy.within.length > 0) found.push(policy.shown)
  if (found.length === 0) return
  throw new CliFailure('E030', `nothing was written, because these files already exist in ${root}: ${found.join(', ')}`, {
    hint: 'move them away, or choose another directory: passover init <directory>',
  })
}

/** Reads the dependencies in an existing package.json; `undefined` if there is none. */
function readManifest(root: string): Partial<Dependencies> | undefined {
  const path = join(root, 'package.json')
  if (!exists(path)) return undefined
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8').replace(/^\uFEFF/, ''))
    if (typeof value === 'object' && value !== null) return value
    throw new Error('it is not a JSON object')
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new CliFailure('E030', `nothing was written, because ${path} cannot be read: ${why}`, { hint: 'fix it, or move it away' })
  }
}

/** Returns the path of each tarball of Passover in a folder, by package name. */
function tarballsIn(folder: string, root: string): Map<string, string> {
  const found = new Map<string, string>()
  const files = existsAsFolder(folder) ? readdirSync(folder).sort() : []
  for (const file of files.filter((name) => name.endsWith('.tgz'))) {
    const name = packageNameIn(join(folder, file))
    if (name?.startsWith(SCOPE)) found.set(name, relative(root, join(folder, file)).replaceAll(sep, '/'))
  }
  if (found.has(PACKAGE)) return found
  throw usage(
    `--packages: there is no tarball of ${PACKAGE} in ${folder}`,
    'create the tarballs in a clone of Passover: npm run pack -- <folder>',
  )
}

const TAR_BLOCK = 512

/** Returns the name in the package.json of a tarball that `npm pack` wrote, or `undefined` if the file is none. */
function packageNameIn(tarball: string): string | undefined {
  try {
    const tar = gunzipSync(readFileSync(tarball))
    for (let at = 0; at + TAR_BLOCK <= tar.length; ) {
      // A header has the file's path in its first 100 bytes, and the size in octal digits at byte 124. The content follows, in whole blocks.
      const [path] = tar.toString('latin1', at, at + 100).split('\0')
      const size = Number.parseInt(tar.toString('latin1', at + 124, at + 136), 8) || 0
      const content = at + TAR_BLOCK
      if (path === 'package/package.json') return JSON.parse(tar.toString('utf8', content, content + size)).name
      at = content + Math.ceil(size / TAR_BLOCK) * TAR_BLOCK
    }
  } catch {
    // The file is not a package.
  }
  return undefined
}

/** Next steps in a new project, which has its own scripts. */
function alone(): Step[] {
  return [
    { command: 'npm install' },
    { command: 'npm run up', note: 'server and services; leave it running' },
    { command: 'npm run greeter', note: 'in a second terminal' },
    { command: 'npm run alice', note: 'in a third: completed Hello, world!' },
  ]
}

/** Next steps in a project with its own package.json, which is not changed. */
function besides(before: Partial<Dependencies>, wanted: Dependencies, tarballs: boolean): Step[] {
  const has = { ...before.dependencies, ...before.devDependencies }
  const install = (names: Record<string, string>, flag: string): Step[] => {
    const missing = Object.entries(names).filter(([name]) => !Object.hasOwn(has, name))
    // npm writes `^0.1.0` into package.json for `0.1.0`; a caret would have to be quoted.
    const words = missing.map(([name, version]) =>
      shellWord(version.startsWith('file:') ? version.slice(5) : `${name}@${version.slice(1)}`),
    )
    return words.length > 0 ? [{ command: `npm install ${flag}${words.join(' ')}` }] : []
  }
  return [
    ...install(wanted.dependencies, tarballs ? '--ignore-scripts ' : ''),
    ...install(wanted.devDependencies, '--save-dev '),
    { command: 'npx tsc -p agents' },
    { command: 'npx passover up', note: 'server and services; leave it running' },
    { command: 'node agents/dist/greeter.mjs', note: 'in a second terminal' },
    { command: 'node agents/dist/alice.mjs', note: 'in a third: completed Hello, world!' },
  ]
}

function enter(from: string, root: string): Step[] {
  return resolve(from) === root && resolve('.') === root ? [] : [{ command: `cd ${shellWord(relative(resolve('.'), root) || root)}` }]
}

/** Derives a valid npm package name from the folder name. */
function nameOf(root: string): string {
  const name = basename(root)
    .toLowerCase()
    .replace(/[^a-z0-9._~-]+/g, '-')
    .replace(/^[._-]+|-+$/g, '')
  return name === '' ? 'my-agents' : name.slice(0, 214)
}

/** Symbolic links count as existing, even broken ones: a write through a link would land elsewhere. */
function exists(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined
}

function existsAsFolder(path: string): boolean {
  try {
    return readdirSync(path) !== undefined
  } catch {
    return false
  }
}

/** Writes a new file. Throws CliFailure E030 if it cannot be written, or if another process has just written it. */
function writeNew(root: string, path: string, text: string): void {
  try {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text, { flag: 'wx' })
  } catch (error) {
    if (!isNodeError(error)) throw error
    throw new CliFailure('E030', `${join(root, path)} cannot be written: ${error.message}`, {
      hint: 'choose a directory that you can write: passover init <directory>',
    })
  }
}
