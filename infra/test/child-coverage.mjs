import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { GREATEST_LOWER_BOUND, generatedPositionFor, LEAST_UPPER_BOUND, originalPositionFor, TraceMap } from '@jridgewell/trace-mapping'

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

  /**
   * 0 where the place is not found again: what is not known does not count. The compiler maps not every expression: of one whose start it does not
   * map, the next place inside it counts.
   */
  at({ start, end }) {
    if (start?.line === undefined) return 0
    for (const bias of [GREATEST_LOWER_BOUND, LEAST_UPPER_BOUND]) {
      const there = generatedPositionFor(this.map, { source: this.source, line: start.line, column: start.column, bias })
      if (there.line === null) continue
      const back = originalPositionFor(this.map, there)
      if (isBefore(start, back) && isBefore(back, end)) return this.counts[this.starts[there.line - 1] + there.column] ?? 0
    }
    return 0
  }
}

/** Whether one place of a source is not behind another. */
function isBefore(one, other) {
  return one.line < other.line || (one.line === other.line && one.column <= (other.column ?? Number.POSITIVE_INFINITY))
}

function addFile(file, built) {
  for (const [key, place] of Object.entries(file.statementMap)) file.s[key] += built.at(place)
  for (const [key, { loc }] of Object.entries(file.fnMap)) file.f[key] += built.at(loc)
  const statements = Object.values(file.statementMap)
  for (const [key, branch] of Object.entries(file.branchMap)) {
    const counts = branch.type === 'if' ? ifCounts(branch, { statements, built }) : branch.locations.map((place) => built.at(place))
    for (const [way, count] of counts.entries()) file.b[key][way] += count
  }
}

/**
 * How often an `if` was true, and how often it was not. The place of its first way is that of the whole statement, and an else that is not written
 * has none: the first statement inside tells how often it was true.
 */
function ifCounts({ loc, locations }, { statements, built }) {
  const inside = statements.filter(({ start }) => !isBefore(start, loc.start) && isBefore(start, loc.end))
  const first = inside.reduce((sooner, one) => (sooner && isBefore(sooner.start, one.start) ? sooner : one), undefined)
  const taken = first ? built.at(first) : 0
  const written = locations[1]?.start?.line === undefined ? undefined : locations[1]
  return [taken, written ? built.at(written) : Math.max(0, built.at(loc) - taken)]
}
