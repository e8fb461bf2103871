import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve, sep } from 'node:path'
import { count } from '@passover/cli'
import type { FileModificationArtifact, FindingArtifact, HandlerResult } from '@passover/schemas'
import type { Pass } from '@passover/sdk'
import { type Build, build, type Diagnostic } from './checker.js'
import { applyFixes, type Fix, leastConfidence, proposeFixes, reasonOf } from './fixes.js'

/** A fix can bring the next error to light; after so many rounds what is left is for people. */
const MAX_ROUNDS = 4
const DEFAULT_TSCONFIG = JSON.stringify({
  compilerOptions: { target: 'ES2022', module: 'NodeNext', moduleResolution: 'NodeNext', strict: true, types: [], noEmit: true },
})

/** The audit subagent: runs the checker over the files it was passed, and returns what it found and what it would change. */
export async function audit(pass: Pick<Pass, 'context' | 'signal' | 'progress'>): Promise<HandlerResult> {
  const files = readable(pass.context.files)
  const sources = [...files.keys()].filter((path) => /\.[cm]?tsx?$/.test(path))
  if (sources.length === 0)
    return {
      status: 'completed',
      summary: { decision: 'approved', findings: [], generated_summary: 'No TypeScript files were passed; nothing to check.' },
    }
  const folder = await mkdtemp(join(tmpdir(), 'passover-audit-'))
  try {
    pass.progress(`checking ${count(sources.length, 'file')}`, 0.2)
    const found = await buildIn(folder, files, pass.signal)
    pass.progress(`${count(found.diagnostics.length, 'error')} found, looking for corrections`, 0.5)
    const { after, fixes } = await correct(folder, { files, build: found, signal: pass.signal })
    return report({ files, after, fixes, found: found.diagnostics, reviewed: sources.length })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Files with a text, under paths that stay inside the folder they are written to. */
function readable(files: Pass['context']['files']): Map<string, string> {
  const root = resolve('/')
  return new Map(
    files.flatMap(({ path, content }) => {
      const inside = resolve(root, path)
      if (typeof content !== 'string' || path.startsWith('/') || inside !== join(root, path)) return []
      return [[path, content] as const]
    }),
  )
}

async function buildIn(folder: string, files: ReadonlyMap<string, string>, signal: AbortSignal): Promise<Build> {
  const all = files.has('tsconfig.json') ? files : new Map([...files, ['tsconfig.json', DEFAULT_TSCONFIG]])
  for (const [path, text] of all) {
    const target = resolve(folder, path)
    if (!target.startsWith(folder + sep)) throw new Error(`${path} is outside the project`)
    await mkdir(dirname(target), { recursive: true })
    await writeFile(target, text)
  }
  return build(folder, signal)
}

/** Corrects and checks again until no rule knows more. */
async function correct(
  folder: string,
  start: { files: Map<string, string>; build: Build; signal: AbortSignal },
): Promise<{ after: Map<string, string>; fixes: Fix[] }> {
  let files = start.files
  let diagnostics = start.build.diagnostics
  const made: Fix[] = []
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const fixes = proposeFixes(files, diagnostics)
    if (fixes.length === 0) break
    made.push(...fixes)
    files = applyFixes(files, fixes)
    diagnostics = (await buildIn(folder, files, start.signal)).diagnostics
  }
  return { after: files, fixes: made }
}

interface Findings {
  files: ReadonlyMap<string, string>
  after: ReadonlyMap<string, string>
  fixes: Fix[]
  found: Diagnostic[]
  reviewed: number
}

function report({ files, after, fixes, found, reviewed }: Findings): HandlerResult {
  const findings = found.map((diagnostic) => finding(diagnostic, fixes))
  const changes = [...files].flatMap(([path, old_content]) => {
    const new_content = after.get(path) ?? old_content
    return new_content === old_content ? [] : [change({ path, old_content, new_content }, fixes)]
  })
  const clean = found.length === 0
  return {
    status: 'completed',
    artifacts: [...changes, ...findings],
    auto_apply_allowed: false,
    summary: {
      decision: clean ? 'approved' : 'needs_modification',
      decision_reason: clean ? 'The build is clean.' : `${found.length} errors keep the project from building.`,
      findings: found.map(({ path, line, column, code, message }) => `${path}:${line}:${column} ${code} ${message}`),
      recommendations: recommendations(changes),
      files_modified: changes.length,
      files_reviewed: reviewed,
      issues_found: found.length,
    },
  }
}

function finding({ path, line, column, code, message }: Diagnostic, fixes: Fix[]): FindingArtifact {
  const fix = fixes.find((each) => each.path === path && each.why.startsWith(`${code}:`) && message.includes(each.text))
  return {
    type: 'finding',
    severity: 'error',
    category: `typescript_${code}`,
    message: `${code} ${message}`,
    location: { path, line, column },
    ...(fix ? { suggested_fix: fix.why } : {}),
  }
}

function change(file: { path: string; old_content: string; new_content: string }, fixes: Fix[]): FileModificationArtifact {
  const own = fixes.filter(({ path }) => path === file.path)
  return {
    type: 'file_modification',
    ...file,
    reason: reasonOf(own),
    confidence: leastConfidence(own.map(({ confidence }) => confidence)),
    operation: 'modify',
  }
}

function recommendations(changes: FileModificationArtifact[]): string[] {
  return changes.map(({ path, confidence }) =>
    confidence === 'low'
      ? `Look at ${path} yourself: the change there silences the checker and may hide a fault.`
      : `Apply the change to ${path}.`,
  )
}
