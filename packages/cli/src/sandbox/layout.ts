import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, delimiter, dirname, join, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { authFolderOf, authorityPath, credentialsPath } from '@passover/bus'
import { stateFolder } from '@passover/bus/settings'
import { cacheFolder } from '@passover/nats-server'
import { userConfigPath } from '@passover/sdk/internal/project'
import type { Tools } from './tools.js'

/** Paths that a restricted command can write, cannot write, or does not see. All are real paths that exist. */
export interface Layout {
  /** Working directory of the worker. */
  directory: string
  /** The directory and related paths elsewhere: git directories (worktree, subfolder of a repository) and the `.passover` folder. */
  project: string[]
  /**
   * The user's own settings and keys, the nats-server that `passover up` runs, and the installations that the directory belongs to. No command can
   * write them, whatever rights its pass has; as separate mounts they cannot be renamed, and hidden files in them stay hidden.
   */
  own: string[]
  /** Paths of this program and of Node.js, which no command can write either. */
  program: string[]
  /** Folders of PATH. A read-only command cannot write there, because the user or Passover would later run what it put there. */
  search: string[]
  /** Files and folders of the installations that are hidden from every command. */
  secrets: { folders: SecretFolder[]; files: string[] }
  /** Home directory, temporary directories, and directories that the person named. */
  writable: string[]
  /** Sockets of services that run programs or write files for every client that can connect. */
  hidden_files: string[]
  hidden_folders: string[]
}

/** A folder that is hidden from the command except for some files. */
export interface SecretFolder {
  folder: string
  visible: string[]
  /** Path of a file that exists but appears empty. */
  emptied?: string
}

export interface LayoutOptions {
  directory: string
  env: NodeJS.ProcessEnv
  /** Directories that the person allows the command to write. */
  writable: readonly string[]
  /** Name of the agent whose commands run. */
  agent?: string | undefined
  /** Programs that confine commands, see tools.ts. */
  tools: Tools
}

/** Builds the layout from the current state of the file system. */
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
    // Only root can write in /usr, and a package manager run as root replaces files there.
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
 * Returns the folders of the user's settings (which can allow automatic apply), of the key that seals project files, and of the nats-server that
 * `passover up` starts. Creates missing ones, because otherwise a command could create them.
 */
function ownFolders(env: NodeJS.ProcessEnv): string[] {
  const folders = [dirname(userConfigPath(env)), stateFolder(env), dirname(cacheFolder(env))]
  for (const folder of folders) {
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
    } catch {
      // This user cannot create the folder, so its commands cannot either.
    }
  }
  return folders
}

/**
 * Returns the program that runs when the user starts `passover`, or when `--replicas` restarts a worker: the outermost `node_modules` that contains
 * this file (with `npx`, the folder around it), or else its package, and Node.js. A program in the worker's own directory is part of the project: a
 * pass that may change the project may change it, and `npm ci` removes it.
 */
function programPaths(): string[] {
  const file = fileURLToPath(import.meta.url)
  const above = foldersAbove(dirname(file))
  const modules = above.findLast((folder) => basename(folder) === 'node_modules')
  const around = modules === undefined ? above.find((folder) => existsSync(join(folder, 'package.json'))) : dirname(modules)
  const isNpx = around !== undefined && basename(dirname(around)) === '_npx'
  return existing([isNpx ? around : (modules ?? around), process.execPath])
}

/** Returns a folder and all its parents. */
function foldersAbove(folder: string): string[] {
  const above = dirname(folder)
  return above === folder ? [folder] : [folder, ...foldersAbove(above)]
}

/** Hides the keys of an installation except those of the command's own agent; with the others it could sign in under any name. */
function keysIn(auth: string, agent: string | undefined): SecretFolder[] {
  const [folder] = existing([auth])
  if (folder === undefined) return []
  const own = agent === undefined ? [] : [credentialsPath(folder, { role: 'agent', name: agent })]
  // keys.json stays as an empty file, because clients conclude from it that each agent has its own credentials.
  return [{ folder, visible: existing([...own, authorityPath(folder)]), emptied: join(folder, 'keys.json') }]
}

/** Hides the server's files, which contain everyone's contexts and results in plain text. */
function recordsIn(nats: string): SecretFolder[] {
  return existing([nats]).map((folder) => ({ folder, visible: [] }))
}

/** Returns the logs of `passover up` and the key that signs evidence. */
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

/** True if a path is a folder or below it. */
export function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder === sep ? sep : `${folder}${sep}`)
}

/**
 * Returns the directories between a writable directory and a path below it. Each becomes a mount point in the sandbox. The kernel refuses to rename a
 * mount point, so a command cannot move the parent of a read-only directory away and put another one in its place.
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

/** Returns the git directory of a folder and the one that its worktree shares with others; [] outside of a repository. */
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

/** Returns the path that a file contains, resolved relative to a folder. */
function pointer(file: string, pattern: RegExp, folder: string): string | undefined {
  try {
    const named = pattern.exec(readFileSync(file, 'utf8'))?.[1]
    return named === undefined ? undefined : resolve(folder, named)
  } catch {
    return undefined
  }
}

/** Returns control sockets through which a command could have another process write a file or run a program. */
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
      // The path is missing or unreachable for this user, and therefore also for the command.
    }
  }
  return [...found]
}
