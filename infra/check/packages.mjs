import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { packInto } from '../setup/published.mjs'

/**
 * Packs every published package and checks the tarball. publint checks that each file in the manifest exists and has the declared format.
 * Are The Types Wrong checks that TypeScript resolves each entry to the types of the code that Node runs. Any message is a failure.
 */

/** Not checked, as the packages are ES modules only: `require`, and the resolution of TypeScript before 4.7 (profile `esm-only` of `attw`). */
const NOT_SUPPORTED = new Set(['node10', 'node16-cjs'])

async function lint(tarball) {
  const { messages, pkg } = await publint({ pack: { tarball }, strict: true })
  return messages.map((message) => `publint ${message.code}: ${formatMessage(message, pkg, { color: false })}`)
}

async function checkTypes(tarball) {
  const { types, problems } = await checkPackage(createPackageFromTarballData(new Uint8Array(tarball)))
  if (!types) return ['attw: the package has no types']
  return problems.filter(({ resolutionKind }) => !NOT_SUPPORTED.has(resolutionKind)).map((problem) => `attw ${JSON.stringify(problem)}`)
}

const folder = mkdtempSync(join(tmpdir(), 'passover-packages-'))
try {
  for (const [name, path] of packInto(folder)) {
    const bytes = readFileSync(path)
    const tarball = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength)
    for (const problem of [...(await lint(tarball)), ...(await checkTypes(tarball))]) {
      process.stderr.write(`${name}: ${problem}\n`)
      process.exitCode = 1
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
