import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, delimiter, dirname, join, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { authFolderOf, authorityPath, credentialsPath } from '@passover/bus'
import { stateFolder } from '@passover/bus/settings'
import { cacheFolder } from '@passover/nats-server'
import { userConfigPath } from '@passover/sdk/project'
import type { Tools } from './tools.js'

/** Which paths a restricted command can write, which it cannot, and which it does not see. All paths are real paths that exist. */
export interface Layout {
  /** The directory of the worker. */
  directory: string
  /** The directory, and what belongs to it but is elsewhere: git directories (worktree, subfolder of a repository), the `.passover` folder. */
  project: string[]
  /**
   * The user's own settings and keys, the nats-server that `passover up` runs, and the installations that the directory belongs to. No command
   * writes them, whatever its pass may do; as mounts of their own they cannot be renamed, and what is hidden in them stays hidden.
   */
  own: string[]
  /** The program of this command, and of Node.js. No command writes them either. */
  program: string[]
  /** Folders of PATH. A read-only command cannot write there: the user or the product would run later what it put there. */
  search: string[]
  /** What a command never sees of the installations that its directory belongs to. */
  secrets: { folders: SecretFolder[]; files: string[] }
  /** Home directory, temporary directories, and what the person named. */
  writable: string[]
  /** Sockets of services that run programs or write files for every client that can connect. */
  hidden_files: string[]
  hidden_folders: string[]
}

/** A folder of which the command sees nothing but some files. */
export interface SecretFolder {
  folder: string
  visible: string[]
  /** A file that is there and has no content. */
  emptied?: string
}

export interface LayoutOptions {
  directory: string
  env: NodeJS.ProcessEnv
  /** Directories that the person allows the command to write. */
  writable: readonly string[]
  /** The agent whose commands run. */
  agent?: string | undefined
  /** The programs that confine commands, see tools.ts. */
  tools: Tools
}

/** Reads the layout from the file system as it is now. */
export function buildLayout({ directory, env, writable, agent, tools }: LayoutOptions): Layout {
  const root = realpathSync(directory)
  const installations = existing(foldersAbove(root).map((folder) => join(folder, '.passover')))
  const outside = existing([...gitDirectories(root), ...installations]).filter((path) => !isInside(path, root))
  const project = [root, ...outside]
  const isProject = (path: string) => project.some((one) => isInside(path, one))
  const usual = existing([env.HOME, '/tmp', '/var/tmp', env.TMPDIR, tmpdir()]).filter((path) => path !== '/' && !isProject(path))
  const named = existing(writable.map((path) => resolve(directory, path))).filter((path) => !project.includes(path))
  const { files, folders } = controlSockets(env)
  return {
    directory: root,
    project,
    own: [...existing(ownFolders(env)), ...installations],
    // In /usr only root can write, and a package manager that it runs replaces files there.
    program: existing([...programPaths(), ...tools.values()]).filter((path) => !isInside(path, root) && !isInside(path, '/usr')),
    search: existing((env.PATH ?? '').split(delimiter)).filter((path) => ![root, ...usual].some((place) => isInside(place, path))),
    writable: [...new Set([...usual, ...named])],
    hidden_files: files,
    hidden_folders: folders,
    secrets: {
      folders: installations.flatMap((folder) => [...keysIn(authFolderOf(folder), agent), ...recordsIn(join(folder, 'nats'))]),
      files: installations.flatMap(secretFilesIn),
    },
  }
}

/**
 * The folders of the user's settings, which can allow automatic apply, of the key that seals project files, and of the nats-server that
 * `passover up` starts. They are made if they do not exist, because a command could make them otherwise.
 */
function ownFolders(env: NodeJS.ProcessEnv): string[] {
  const folders = [dirname(userConfigPath(env)), stateFolder(env), dirname(cacheFolder(env))]
  for (const folder of folders) {
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
    } catch {
      // This user cannot make it, and so its commands cannot either.
    }
  }
  return folders
}

/**
 * What runs when the user starts `passover`, or when `--replicas` starts a worker again: the outermost `node_modules` that this file is in (for
 * `npx` with the folder around it), or its package, and Node.js. A program in the worker's own directory is part of the project: a pass that may
 * change the project may change it, and `npm ci` removes it.
 */
function programPaths(): string[] {
  const file = fileURLToPath(import.meta.url)
  const above = foldersAbove(dirname(file))
  const modules = above.findLast((folder) => basename(folder) === 'node_modules')
  const around = modules === undefined ? above.find((folder) => existsSync(join(folder, 'package.json'))) : dirname(modules)
  const isNpx = around !== undefined && basename(dirname(around)) === '_npx'
  return existing([isNpx ? around : (modules ?? around), process.execPath])
}

/** A folder and all above it. */
function foldersAbove(folder: string): string[] {
  const above = dirname(folder)
  return above === folder ? [folder] : [folder, ...foldersAbove(above)]
}

/** A command signs in as its agent; with the other keys in that folder it could sign in under any name. */
function keysIn(auth: string, agent: string | undefined): SecretFolder[] {
  const [folder] = existing([auth])
  if (folder === undefined) return []
  const own = agent === undefined ? [] : [credentialsPath(folder, { role: 'agent', name: agent })]
  // An empty keys.json remains: it tells clients that each agent has credentials of its own.
  return [{ folder, visible: existing([...own, authorityPath(folder)]), emptied: join(folder, 'keys.json') }]
}

/** The server's files hold the contexts and results of everybody, in clear. */
function recordsIn(nats: string): SecretFolder[] {
  return existing([nats]).map((folder) => ({ folder, visible: [] }))
}

/** The logs of `passover up`, and the key that signs evidence. */
function secretFilesIn(installation: string): string[] {
  const names = readableNames(installation).filter((name) => /^(passover\.log|evidence\.key)(\.|$)/.test(name))
  return existing(names.map((name) => join(installation, name)))
}

function readableNames(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

/** Whether a path is a folder or below it. */
export function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder === sep ? sep : `${folder}${sep}`)
}

/**
 * Directories between a writable directory and a path below it. Each becomes a mount point in the sandbox: the kernel refuses to rename a mount
 * point, so that a command cannot move the parent of a read-only directory away and put another one in its place.
 */
export function ancestorsToPin(paths: readonly string[], writable: readonly string[]): string[] {
  const pinned = new Set<string>()
  for (const path of paths) {
    for (let folder = dirname(path); folder !== dirname(folder); folder = dirname(folder)) {
      const isBelow = writable.some((one) => folder !== one && isInside(folder, one))
      if (isBelow && !paths.some((one) => isInside(folder, one))) pinned.add(folder)
    }
  }
  return [...pinned]
}

/** The git directory of a folder and the one that its worktree shares with others; [] outside of a repository. */
export function gitDirectories(directory: string): string[] {
  for (const folder of foldersAbove(directory)) {
    const git = join(folder, '.git')
    if (existsSync(git)) {
      const own = statSync(git).isDirectory() ? git : pointer(git, /^gitdir: (.+)$/m, folder)
      const common = own === undefined ? undefined : pointer(join(own, 'commondir'), /^(.+)$/m, own)
      return existing([own, common])
    }
  }
  return []
}

/** The path that a file names, relative to a folder. */
function pointer(file: string, pattern: RegExp, folder: string): string | undefined {
  try {
    const named = pattern.exec(readFileSync(file, 'utf8'))?.[1]
    return named === undefined ? undefined : resolve(folder, named)
  } catch {
    return undefined
  }
}

/** A command that reaches one of these can have another process write a file or run a program. */
function controlSockets(env: NodeJS.ProcessEnv): { files: string[]; folders: string[] } {
  const uid = process.getuid?.() ?? 0
  const home = env.HOME ?? '/'
  return {
    files: existing([
      /^unix:\/\/(.+)/.exec(env.DOCKER_HOST ?? '')?.[1],
      '/run/docker.sock',
      join(home, '.docker/run/docker.sock'),
      join(home, '.docker/desktop/docker.sock'),
      '/run/containerd/containerd.sock',
      '/run/podman/podman.sock',
      '/run/crio/crio.sock',
      '/run/dbus/system_bus_socket',
      '/run/systemd/private',
      '/run/snapd.socket',
    ]),
    folders: existing([
      env.XDG_RUNTIME_DIR ?? `/run/user/${uid}`,
      join(env.TMUX_TMPDIR ?? '/tmp', `tmux-${uid}`),
      '/run/screen',
      join(home, '.screen'),
    ]).filter((path) => statSync(path).isDirectory() && path.split(sep).length > 2),
  }
}

function existing(paths: readonly (string | undefined)[]): string[] {
  const found = new Set<string>()
  for (const path of paths) {
    if (path === undefined || !path.startsWith(sep)) continue
    try {
      found.add(realpathSync(path))
    } catch {
      // It is not there, or not reachable for this user, and so not for the command.
    }
  }
  return [...found]
}
