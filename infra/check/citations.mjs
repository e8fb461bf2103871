import { readFileSync } from 'node:fs'
import { ROOT } from '../setup/prepare.mjs'
import { filesBelow } from './files.mjs'
import { pageOf } from './page.mjs'

/**
 * Finds citations in comments and documents whose target does not exist: a path, a heading, a decision record, or a rule, promise or invariant that
 * no page or package lists. Also finds sections and names of documents that are not in the repository, in titles of tests too. Prints a line for
 * each, and exits 1 if there are any. Paths of documents are also checked where code prints them.
 */

const CHECKED = /\.(?:ts|mjs|js|grit|jsonc|sh|md)$|Dockerfile$/
const COMMENT = /^\s*(?:\/\/|\/?\*|#)|\s\/\/ |\/\*\*/
/** A path from the root, with the heading that it may name. */
const PATH = /(?<![\w./-])((?:docs|infra|packages|services|schemas|test|examples)(?:\/[\w.-]+)+\.(?:md|ts|mjs|json|grit|sh))(?:#([\w-]+))?/g
/** A file that is named alone, as `decide-attempt.ts`, or by the end of its path. */
const NAME = /(?<![\w./<>*-])((?:[a-z][\w-]*\/)*[a-z][\w-]*(?:\.test)?\.(?:ts|mjs))(?![\w-])/g
/** Not a count in a printed line, as `decisions 139, returns 4494`. */
const DECISIONS = /\bdecisions? (\d{1,3}(?:(?:, | and )\d{1,3})*)(?!\d|, [a-z]+ \d)/gi
/** Sections and names of documents that are not in the repository. */
const ELSEWHERE = [
  /\b[A-Z]{2,}(?:\.md| §)|\b[Ss]pec \d\b|§ ?\d|\bissue \d|\b[Aa]ppendix [A-Z]\b|\b[Pp]hase \d\b/,
  /\b(?:[Tt]he|[Oo]ur|[Ii]ts) (?:spec|design|roadmap)\b(?! of\b)|\b[Ii]mplementation guide\b|\b[Tt]he guide['’]s\b|\bpage of scenarios\b/,
]
const TITLE = /^\s*(?:it|test|describe)\b[\w.]*\(/
/** `rule 5`, `P4` and `I3` as comments cite them. */
const RULE = /\brules? (\d)\b/g
const PROMISE = /\bP(\d)\b/g
const INVARIANT = /[( ]([IST]\d)(?=[,);:])/g

const files = [...filesBelow()]
const known = new Set(files)
const records = new Set(files.map((file) => /^infra\/decisions\/(\d{4})-/.exec(file)?.[1]).filter(Boolean))
/** Conventional file names, which match ELSEWHERE but may be cited. */
const STANDARD = new Set(['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'LICENSE.md'])

const PAGE = 'docs/architecture/invariants.md'
const promises = new Set(readFileSync(`${ROOT}/${PAGE}`, 'utf8').match(/(?<=^- \*\*)P\d/gm))
/** Invariants that the packages list in their `index.ts`, by package. */
const invariants = new Map()
for (const file of files) {
  const folder = packageOf(file)
  if (!folder || !file.startsWith(`${folder}/src/`) || !file.endsWith('/index.ts')) continue
  const listed = readFileSync(`${ROOT}/${file}`, 'utf8').match(/(?<=^ \* )[IST]\d(?= )/gm) ?? []
  invariants.set(folder, new Set([...(invariants.get(folder) ?? []), ...listed]))
}

/** `place`: in a document, every line is prose and may name files of examples. The code of a test may contain paths that do not exist. */
function* faultsOf(line, place, file) {
  const isProse = place === 'document' || COMMENT.test(line)
  if (isProse || (place === 'test' && TITLE.test(line))) yield* elsewhere(line)
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
  if (place === 'document') return
  for (const [, number] of line.matchAll(RULE))
    if (!pageOf(`${ROOT}/${PAGE}`).ids.has(`rule-${number}`)) yield `${PAGE} has no rule ${number}`
  for (const [promise] of line.matchAll(PROMISE)) if (!promises.has(promise)) yield `${PAGE} has no promise ${promise}`
  const listed = invariants.get(packageOf(file))
  for (const [, name] of line.matchAll(INVARIANT)) if (listed && !listed.has(name)) yield `no index.ts of the package lists ${name}`
}

function* elsewhere(line) {
  for (const pattern of ELSEWHERE) {
    const [found] = pattern.exec(line) ?? []
    if (found && !STANDARD.has(found)) yield `"${found}" is in no document of the repository: cite one, or give the reason in words`
  }
}

/** Returns the folder of the package that a file is in. */
function packageOf(file) {
  return /^(?:schemas|(?:packages|services)\/[^/]+)(?=\/)/.exec(file)?.[0]
}

function placeOf(file) {
  if (file.endsWith('.md')) return 'document'
  return file.startsWith('test/') || file.includes('.test.') ? 'test' : 'code'
}

let failed = 0
for (const file of files.filter((name) => CHECKED.test(name))) {
  const lines = readFileSync(`${ROOT}/${file}`, 'utf8').split('\n')
  for (const [at, line] of lines.entries()) {
    for (const fault of faultsOf(line, placeOf(file), file)) {
      failed += 1
      process.stderr.write(`${file}:${at + 1}: ${fault}\n`)
    }
  }
}
process.exit(failed ? 1 : 0)
