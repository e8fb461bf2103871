import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { ROOT } from '../setup/prepare.mjs'
import { pageOf } from './page.mjs'

/**
 * Finds citations in comments and documents that lead nowhere: a path or a heading that does not exist, a decision without a record, a section
 * of a document that is no file of the repository. Fails with a line for each. Paths of documents are also checked where code prints them.
 */

const CHECKED = /\.(?:ts|mjs|js|grit|jsonc|sh|md)$|Dockerfile$/
const COMMENT = /^\s*(?:\/\/|\/?\*|#)|\s\/\/ |\/\*\*/
/** A path from the root, with the heading that it may name. */
const PATH = /(?<![\w./-])((?:docs|infra|packages|services|schemas|test|examples)(?:\/[\w.-]+)+\.(?:md|ts|mjs|json|grit|sh))(?:#([\w-]+))?/g
/** A file that is named alone, as `decide-attempt.ts`, or by the end of its path. */
const NAME = /(?<![\w./<>*-])((?:[a-z][\w-]*\/)*[a-z][\w-]*(?:\.test)?\.(?:ts|mjs))(?![\w-])/g
const DECISIONS = /\bdecisions? (\d{1,3}(?:(?:, | and )\d{1,3})*)/gi
/** Sections of documents that are elsewhere. */
const ELSEWHERE = /\b[A-Z]{2,}(?:\.md| §)|\b[Ss]pec \d\b|§ ?\d|\bissue \d/

const listed = spawnSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], { cwd: ROOT, encoding: 'utf8' }).stdout
const files = listed.split('\n').filter((file) => file !== '' && existsSync(`${ROOT}/${file}`))
const known = new Set(files)
const records = new Set(files.map((file) => /^infra\/decisions\/(\d{4})-/.exec(file)?.[1]).filter(Boolean))
/** Documents that npm and git know by these names. */
const STANDARD = new Set(['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'LICENSE.md'])

/** `place`: a document is prose in all its lines, and names files of examples; a test holds paths of its own. */
function* faultsOf(line, place) {
  const isProse = place === 'document' || COMMENT.test(line)
  for (const [, path, heading] of line.matchAll(PATH)) {
    if (!isProse && (place === 'test' || !path.endsWith('.md'))) continue
    if (!known.has(path)) yield `there is no ${path}`
    else if (heading && !pageOf(`${ROOT}/${path}`).ids.has(heading)) yield `${path} has no heading #${heading}`
  }
  if (!isProse) return
  if (place !== 'document')
    for (const [, name] of line.matchAll(NAME))
      if (!known.has(name) && !files.some((file) => file.endsWith(`/${name}`))) yield `there is no ${name}`
  for (const [, numbers] of line.matchAll(DECISIONS))
    for (const number of numbers.match(/\d+/g)) if (!records.has(number.padStart(4, '0'))) yield `there is no decision ${number}`
  const [elsewhere] = ELSEWHERE.exec(line) ?? []
  if (elsewhere && !STANDARD.has(elsewhere)) yield `"${elsewhere}" is of no document of the repository`
}

function placeOf(file) {
  if (file.endsWith('.md')) return 'document'
  return file.startsWith('test/') || file.includes('.test.') ? 'test' : 'code'
}

let failed = 0
for (const file of files.filter((name) => CHECKED.test(name))) {
  const lines = readFileSync(`${ROOT}/${file}`, 'utf8').split('\n')
  for (const [at, line] of lines.entries()) {
    for (const fault of faultsOf(line, placeOf(file))) {
      failed += 1
      process.stderr.write(`${file}:${at + 1}: ${fault}\n`)
    }
  }
}
process.exit(failed ? 1 : 0)
