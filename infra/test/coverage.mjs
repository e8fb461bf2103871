import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import libCoverage from 'istanbul-lib-coverage'
import { addChildren } from './child-coverage.mjs'

/** At least so much of lines and branches, in percent: of everything, and of the pure rules. */
const THRESHOLDS = [
  { what: 'all', within: '', percent: 80 },
  { what: 'packages/core', within: 'packages/core/src/', percent: 95 },
]

/** vitest's coverage with that of the child processes in it. Prints it, and gives what falls short, in words. */
export function judgeCoverage({ root, children }) {
  const path = join(root, 'coverage', 'coverage-final.json')
  if (!existsSync(path)) return ['vitest wrote no coverage']
  const files = JSON.parse(readFileSync(path, 'utf8'))
  addChildren(files, { dir: children, root })
  writeFileSync(path, JSON.stringify(files))
  const short = []
  for (const { what, within, percent } of THRESHOLDS) {
    const summary = libCoverage.createCoverageSummary()
    const map = libCoverage.createCoverageMap(files)
    for (const file of map.files()) if (file.startsWith(join(root, within))) summary.merge(map.fileCoverageFor(file).toSummary())
    const { lines, branches, functions, statements } = summary.data
    process.stdout.write(
      `Coverage of ${what}, child processes too: ${[
        ['lines', lines],
        ['branches', branches],
        ['functions', functions],
        ['statements', statements],
      ]
        .map(([name, { pct, covered, total }]) => `${name} ${pct} % (${covered}/${total})`)
        .join(', ')}\n`,
    )
    for (const [name, { pct }] of [
      ['lines', lines],
      ['branches', branches],
    ])
      if (pct < percent) short.push(`coverage of ${what}: ${name} ${pct} %, at least ${percent} % wanted`)
  }
  return short
}
