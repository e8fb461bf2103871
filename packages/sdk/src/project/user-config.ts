import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { isAbsolute, join, relative, resolve } from 'node:path'
import { ownershipFault } from './ownership.js'

/** The user's own settings, which no project, server or policy can change. */
export interface UserConfig {
  /** True if outputs may be applied automatically in all directories, or a list of directories in which (and below which) they may. */
  auto_apply: boolean | string[]
}

export interface UserConfigRead {
  path: string
  config: UserConfig
  /** Reason why the file is not used. */
  fault?: string
}

const DEFAULTS: UserConfig = { auto_apply: false }

/** Returns the path of `<XDG config>/passover/config.json`. */
export function userConfigPath(env: NodeJS.ProcessEnv = process.env): string {
  return join(env.XDG_CONFIG_HOME || join(env.HOME || homedir(), '.config'), 'passover', 'config.json')
}

/** Reads the user's own settings. A file that others can write, or that is not valid, is ignored. */
export function readUserConfig(env: NodeJS.ProcessEnv = process.env): UserConfigRead {
  const path = userConfigPath(env)
  if (!existsSync(path)) return { path, config: DEFAULTS }
  try {
    const real = realpathSync(path)
    const fault = ownershipFault(real, resolve(real, '..'), 1)
    if (fault) return { path, config: DEFAULTS, fault: fault.why }
    const value: unknown = JSON.parse(readFileSync(real, 'utf8'))
    const { auto_apply = false } = typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
    if (isAutoApply(auto_apply)) return { path, config: { auto_apply } }
    return { path, config: DEFAULTS, fault: 'auto_apply must be true, false or a list of absolute paths' }
  } catch (error) {
    return { path, config: DEFAULTS, fault: error instanceof Error ? error.message : String(error) }
  }
}

/** Returns true if the user's own settings allow automatic application in a directory. */
export function mayAutoApplyIn(directory: string, say: (line: string) => void = () => undefined): boolean {
  const { path, config, fault } = readUserConfig()
  if (fault !== undefined) say(`passover: ignored ${path}: ${fault}`)
  const { auto_apply } = config
  if (typeof auto_apply === 'boolean') return auto_apply
  const at = realPath(directory)
  return auto_apply.some((allowed) => isWithin(at, realPath(allowed)))
}

function isAutoApply(value: unknown): value is boolean | string[] {
  return typeof value === 'boolean' || (Array.isArray(value) && value.every((one) => typeof one === 'string' && isAbsolute(one)))
}

function isWithin(path: string, directory: string): boolean {
  const way = relative(directory, path)
  return way === '' || !(way === '..' || way.startsWith('../') || isAbsolute(way))
}

function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return resolve(path)
  }
}
