import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { jsonSchemas } from './json-schemas.js'

/** The directory of generated files, reduced to what generating needs. */
export interface Folder {
  names(): string[]
  read(name: string): string
  write(name: string, text: string): void
  remove(name: string): void
}

/** Returns the differences between the folder and the files that would be generated, one line per file; empty if there are none. */
export function drift(folder: Folder, wanted: Map<string, string>): string[] {
  const present = new Set(folder.names())
  const lines: string[] = []
  for (const [name, text] of wanted) {
    if (!present.has(name)) lines.push(`schemas/json/${name} is missing`)
    else if (folder.read(name) !== text) lines.push(`schemas/json/${name} differs from its zod schema`)
  }
  for (const name of present) if (!wanted.has(name)) lines.push(`schemas/json/${name} belongs to no schema`)
  return lines
}

/** Writes the generated files or, with `--check`, only reports differences. Returns the exit code and the lines to print. */
export function generate(args: string[], folder: Folder): { code: number; lines: string[] } {
  const wanted = jsonSchemas()
  const lines = drift(folder, wanted)
  if (lines.length === 0) return { code: 0, lines: [`${wanted.size} JSON Schemas are up to date`] }
  if (args.includes('--check')) return { code: 1, lines: [...lines, 'Run "npm run generate -w schemas" and commit schemas/json.'] }
  for (const name of folder.names()) if (!wanted.has(name)) folder.remove(name)
  for (const [name, text] of wanted) folder.write(name, text)
  return { code: 0, lines: [...lines, `${wanted.size} JSON Schemas written`] }
}

/** Returns a folder on disk. */
function onDisk(path: string): Folder {
  mkdirSync(path, { recursive: true })
  return {
    names: () => readdirSync(path),
    read: (name) => readFileSync(`${path}/${name}`, 'utf8'),
    write: (name, text) => writeFileSync(`${path}/${name}`, text),
    remove: (name) => rmSync(`${path}/${name}`),
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { code, lines } = generate(process.argv.slice(2), onDisk(fileURLToPath(new URL('../json', import.meta.url))))
  process.stdout.write(`${lines.join('\n')}\n`)
  process.exitCode = code
}
