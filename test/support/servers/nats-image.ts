import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFile, mkdir, mkdtemp, readFile, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { serverBinary } from './nats-process.js'

const run = promisify(execFile)
const DOCKERFILE = fileURLToPath(new URL('../../../infra/image/nats.Dockerfile', import.meta.url))

let image: Promise<string> | undefined

/** Name of an image that holds nats-server, the libraries it is linked with and nothing else; built when it is not there. */
export function natsImage(): Promise<string> {
  image ??= build()
  return image
}

async function build(): Promise<string> {
  const binary = await serverBinary()
  const digest = createHash('sha256')
    .update(await readFile(binary))
    .update(await readFile(DOCKERFILE))
    .digest('hex')
  const tag = `passover-test-nats:${digest.slice(0, 16)}`
  const present = await run('docker', ['image', 'inspect', tag]).then(
    () => true,
    () => false,
  )
  if (present) return tag
  const context = await mkdtemp(join(tmpdir(), 'passover-image-'))
  try {
    const root = join(context, 'root')
    await placeWithLibraries(binary, join(root, 'nats-server'), root)
    await run('docker', ['build', '--quiet', '--tag', tag, '--file', DOCKERFILE, context], { timeout: 120_000 })
    return tag
  } finally {
    await rm(context, { recursive: true, force: true })
  }
}

/** Copies a program to a place below `root`, the root of an image, and the libraries that it is linked with to theirs. */
export async function placeWithLibraries(binary: string, to: string, root: string): Promise<void> {
  await place(binary, to)
  for (const library of await librariesOf(binary)) await place(await realpath(library), join(root, library))
}

async function place(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true })
  await copyFile(from, to)
}

/** Absolute paths of what a binary is linked with; none when it is static (the official release is). */
async function librariesOf(binary: string): Promise<string[]> {
  const { stdout } = await run('ldd', [binary]).catch(() => ({ stdout: '' }))
  return stdout.split('\n').flatMap((line) => /(?:=>\s*)?(\/\S+)\s+\(0x/.exec(line)?.[1] ?? [])
}
