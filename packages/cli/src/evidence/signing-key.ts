import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createProject, findProject, requireOwnProject } from '../connection/project-directory.js'
import { CliFailure } from '../errors.js'

const FILE = 'evidence.key'

/** Loads the key that signs evidence: the given file, else the project's own key, which is created at first use. */
export function loadSigningKey({ file, directory }: { file: string | undefined; directory: string }): {
  key: KeyObject
  path: string
  made: boolean
} {
  if (file !== undefined) return { key: readKey(file), path: file, made: false }
  const project = findProject(directory)
  const path = join(project ? requireOwnProject(project) : createProject(directory), FILE)
  const { privateKey } = generateKeyPairSync('ed25519')
  try {
    writeFileSync(path, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600, flag: 'wx' })
    return { key: privateKey, path, made: true }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw keyFailure(path, error)
  }
  return { key: readKey(path), path, made: false }
}

function readKey(path: string): KeyObject {
  try {
    const key = createPrivateKey(readFileSync(path))
    if (key.asymmetricKeyType === 'ed25519') return key
  } catch (error) {
    throw keyFailure(path, error)
  }
  throw new CliFailure('E030', `${path} does not contain an Ed25519 key`, {
    hint: 'to create one: openssl genpkey -algorithm ed25519 -out evidence.key',
  })
}

function keyFailure(path: string, error: unknown): CliFailure {
  return new CliFailure('E030', `the key ${path} cannot be used: ${error instanceof Error ? error.message : String(error)}`, {
    hint: 'expected an Ed25519 key in PEM format; to create one: openssl genpkey -algorithm ed25519 -out evidence.key',
  })
}
