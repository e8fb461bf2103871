import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { generatedPositionFor, originalPositionFor, TraceMap } from '@jridgewell/trace-mapping'

/**
 * What processes of the tests ran of our code, as V8 wrote it when they ended (NODE_V8_COVERAGE). vitest measures only modules that it transformed,
 * but most tests run `dist`, and commands run the bundle. A position in `src` is looked up there by the source map.
 */

/** Adds to `files` (vitest's map, by path of the source) what the reports in `dir` saw. */
export function addChildren(files, { dir, root }) {
  for (const [path, counts] of countsIn(dir, root)) {
    const map = new TraceMap(readFileSync(`${path}.map`, 'utf8'), path)
    // A bundle has many sources.
    for (const source of map.resolvedSources) {
      const file = files[source]
      if (file) addFile(file, new Built({ path, map, source, counts }))
    }
  }
}

/** How often each character of a built file ran, over all processes. */
function countsIn(dir, root) {
  const counts = new Map()
  for (const name of readdirSync(dir)) {
    for (const { url, functions } of reportIn(join(dir, name))) {
      if (!url.startsWith('file:') || url.includes('/node_modules/')) continue
      const path = fileURLToPath(url)
      if (!path.startsWith(root) || !existsSync(`${path}.map`)) continue
      if (!counts.has(path)) counts.set(path, new Float64Array(readFileSync(path, 'utf8').length))
      addCounts(counts.get(path), functions)
    }
  }
  return counts
}

/** A process that was killed while it wrote leaves half a report: it counts for nothing. */
function reportIn(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8')).result
  } catch {
    return []
  }
}

function addCounts(total, functions) {
  const own = new Float64Array(total.length)
  // Outer ranges come first, and each inner one says it better.
  const ranges = functions.flatMap((each) => each.ranges).sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset)
  for (const { startOffset, endOffset, count } of ranges) own.fill(count, startOffset, endOffset)
  for (let at = 0; at < own.length; at++) total[at] += own[at]
}

/** Finds how often a position of one source ran in a built file. */
class Built {
  constructor({ path, map, source, counts }) {
    this.counts = counts
    this.map = map
    this.source = source
    const lines = readFileSync(path, 'utf8').split('\n')
    this.starts = [0]
    for (const line of lines) this.starts.push(this.starts.at(-1) + line.length + 1)
  }

  /** 0 where the place is not found again: what is not known does not count. */
  at(start) {
    if (start?.line === undefined) return 0
    const there = generatedPositionFor(this.map, { source: this.source, line: start.line, column: start.column })
    if (there.line === null) return 0
    const back = originalPositionFor(this.map, there)
    if (back.line !== start.line || back.column !== start.column) return 0
    return this.counts[this.starts[there.line - 1] + there.column] ?? 0
  }
}

function addFile(file, built) {
  for (const [key, place] of Object.entries(file.statementMap)) file.s[key] += built.at(place.start)
  for (const [key, { loc }] of Object.entries(file.fnMap)) file.f[key] += built.at(loc.start)
  for (const [key, branch] of Object.entries(file.branchMap)) {
    const taken = branch.locations.map(({ start }) => built.at(start))
    for (const [way, { start }] of branch.locations.entries()) {
      // An else that is not written: as often as the whole ran more often than what is.
      const count = start.line === undefined ? Math.max(0, built.at(branch.loc.start) - (taken[0] ?? 0)) : taken[way]
      file.b[key][way] += count
    }
  }
}
