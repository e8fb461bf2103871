import { readFileSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path/posix'
import { ROOT } from '../setup/prepare.mjs'
import { filesBelow } from './files.mjs'

/**
 * Checks the folders of each package: a folder has at most 12 files, and folders do not import one another in a cycle, types included. Tests are not
 * counted. Imports of a package's entry are not counted either, because the entry exports from all folders. Prints each folder that is too large, and
 * each cycle with its imports, and exits 1 if there are any.
 */

const MAX_FILES = 12
/** Maximum number of imports to print for each direction between two folders. */
const SHOWN = 4
const PACKAGE = /^(schemas\/src|(?:packages|services)\/[^/]+\/src|infra\/src|test\/simulation|test)\//
const ENTRY = /^(?:index|main|program)\.ts$/
/** Any relative path in quotes: an import, a re-export, or the file of a worker thread. */
const SPECIFIER = /(['"])(\.\.?\/[^'"\n]+)\1/g

/** Folders that may be larger, and packages whose folders may form cycles, with the reason. An exception that is not needed is a fault. */
const LARGER = new Map([['test/simulation/server', 'one model of the server, in the terms of the simulation']])
const CYCLIC = new Map([['test/simulation', 'one program: its actors, plans and checks know the simulation that runs them']])

function isTest(file) {
  return file.endsWith('.test.ts')
}

/** Groups the TypeScript files of the repository by package. */
function packagesOf(paths) {
  const found = new Map()
  for (const path of paths) {
    const [, folder] = PACKAGE.exec(path) ?? []
    if (!folder || !/\.m?ts$/.test(path) || path.endsWith('.d.ts') || isTest(path)) continue
    found.set(folder, [...(found.get(folder) ?? []), path])
  }
  return found
}

/** Finds the file that a relative specifier names. Returns undefined if the package has no such file. */
function target(file, specifier, known) {
  const path = normalize(join(dirname(file), specifier))
  return [path.replace(/\.js$/, '.ts'), path.replace(/\.mjs$/, '.mts'), path].find((one) => known.has(one))
}

/** Reads which folder imports which: folder → imported folder → the imports as text. */
function graphOf(base, files) {
  const known = new Set(files)
  const graph = new Map(files.map((file) => [dirname(file), new Map()]))
  for (const file of files) {
    if (ENTRY.test(relative(base, file))) continue
    for (const [, , specifier] of readFileSync(join(ROOT, file), 'utf8').matchAll(SPECIFIER)) {
      const imported = target(file, specifier, known)
      if (!imported || dirname(imported) === dirname(file)) continue
      const edges = graph.get(dirname(file))
      const texts = edges.get(dirname(imported)) ?? []
      edges.set(dirname(imported), [...texts, `${relative(base, file)} -> ${relative(base, imported)}`])
    }
  }
  return graph
}

/** Returns the folders that a folder imports, directly or through others. */
function reachable(graph, from) {
  const seen = new Set()
  const open = [from]
  for (let folder = open.pop(); folder !== undefined; folder = open.pop()) {
    for (const next of graph.get(folder)?.keys() ?? []) if (!seen.has(next) && seen.add(next)) open.push(next)
  }
  return seen
}

/** Returns the groups of folders that reach one another. */
function cyclesOf(graph) {
  const reach = new Map([...graph.keys()].map((folder) => [folder, reachable(graph, folder)]))
  const groups = []
  const grouped = new Set()
  for (const folder of graph.keys()) {
    if (grouped.has(folder)) continue
    const group = [...graph.keys()].filter((other) => reach.get(folder).has(other) && reach.get(other).has(folder))
    for (const one of group) grouped.add(one)
    if (group.length > 1) groups.push(group)
  }
  return groups
}

function* importsWithin(graph, group) {
  for (const from of group)
    for (const to of group) {
      const texts = graph.get(from).get(to) ?? []
      if (from !== to && texts.length > 0)
        yield `    ${texts.slice(0, SHOWN).join('; ')}${texts.length > SHOWN ? `; ${texts.length - SHOWN} more` : ''}`
    }
}

function* faultsOf(base, files) {
  const sizes = new Map()
  for (const file of files) sizes.set(dirname(file), (sizes.get(dirname(file)) ?? 0) + 1)
  for (const [folder, size] of sizes) {
    const isLarge = size > MAX_FILES
    if (isLarge && !LARGER.has(folder)) yield `${folder} has ${size} files, at most ${MAX_FILES}: split it by concept`
    if (!isLarge && LARGER.has(folder)) yield `${folder} has ${size} files: take it out of LARGER`
  }
  const graph = graphOf(base, files)
  const cycles = cyclesOf(graph)
  if (CYCLIC.has(base)) {
    if (cycles.length === 0) yield `${base} has no cycle: take it out of CYCLIC`
    return
  }
  for (const group of cycles) yield [`folders import one another: ${group.join(', ')}`, ...importsWithin(graph, group)].join('\n')
}

const packages = packagesOf(filesBelow())
const folders = new Set([...packages.values()].flat().map(dirname))
const faults = [...packages].flatMap(([base, files]) => [...faultsOf(base, files)])
for (const folder of LARGER.keys()) if (!folders.has(folder)) faults.push(`${folder} is no folder: take it out of LARGER`)
for (const fault of faults) process.stdout.write(`${fault}\n`)
process.exit(faults.length > 0 ? 1 : 0)
