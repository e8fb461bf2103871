import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { placeWithLibraries } from './nats-image.js'

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const BASE = 'passover-test-node'
const PRODUCT = 'passover-test-product'

/**
 * Builds the product's own image (infra/image/Dockerfile) from what was built here. No registry is needed: the base image is the Node that runs
 * the tests, with the libraries that it is linked with.
 */
export async function productImage(): Promise<string> {
  const context = await mkdtemp(join(tmpdir(), 'passover-image-'))
  try {
    const root = join(context, 'root')
    await placeWithLibraries(process.execPath, join(root, 'usr/local/bin/node'), root)
    for (const folder of ['etc', 'tmp']) await mkdir(join(root, folder), { recursive: true })
    await writeFile(join(root, 'etc/passwd'), 'node:x:1000:1000:node:/tmp:/bin/false\n')
    await writeFile(join(context, 'Dockerfile'), 'FROM scratch\nENV PATH=/usr/local/bin\nCOPY root/ /\n')
    await docker('build', '--quiet', '--tag', BASE, context)
    await docker('build', '--quiet', '--tag', PRODUCT, '--build-arg', `BASE=${BASE}`, '--file', 'infra/image/Dockerfile', '.')
    return PRODUCT
  } finally {
    await rm(context, { recursive: true, force: true })
  }
}

async function docker(...args: string[]): Promise<void> {
  await run('docker', args, { cwd: ROOT, timeout: 180_000 })
}
