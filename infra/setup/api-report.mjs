import { mkdirSync, readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { ROOT } from './prepare.mjs'

// Scripts of package.json need nothing but Node until they have set the project up.
const { CompilerState, Extractor, ExtractorConfig } = await import('@microsoft/api-extractor')

/**
 * Writes `api/<entry>.api.md` for the packages that other programs import: the declarations of all exports of an entry point. With --check: exits 1
 * if a report differs from the built declarations. An invalid TSDoc comment is an error in both modes.
 *
 * API Extractor reads the built declarations with its own TypeScript 6, because TypeScript 7 has no compiler API for it.
 */

const PACKAGES = ['packages/sdk', 'packages/operator']
const check = process.argv.includes('--check')

/** Lists the entry points with declarations, without those under `internal`: they may change at any time. */
function entryPoints(folder) {
  const { exports } = JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8'))
  return Object.entries(exports)
    .filter(([path, { types }]) => types && !path.startsWith('./internal'))
    .map(([path, { types }]) => ({
      folder,
      name: path === '.' ? 'index' : path.slice(2).replaceAll('/', '-'),
      types: join(ROOT, folder, types),
    }))
}

function configOf({ folder, name, types }, files) {
  const projectFolder = join(ROOT, folder)
  const compilerOptions = {
    target: 'ES2022',
    lib: ['ES2023', 'ESNext.Disposable'],
    module: 'NodeNext',
    moduleResolution: 'NodeNext',
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: true,
    rootDir: ROOT,
    types: ['node'],
    // Without a tsconfig file, API Extractor does not look for @types in parent folders.
    typeRoots: [join(ROOT, 'node_modules', '@types')],
  }
  return ExtractorConfig.prepare({
    configObject: {
      projectFolder,
      mainEntryPointFilePath: types,
      newlineKind: 'lf',
      // Declarations of the workspace are part of the report. The fields of zod schemas are not: schemas/json has them.
      bundledPackages: ['@passover/*'],
      compiler: { overrideTsconfig: { compilerOptions, files } },
      apiReport: {
        enabled: true,
        reportFileName: name,
        reportFolder: join(projectFolder, 'api'),
        reportTempFolder: join(ROOT, 'node_modules', '.cache', 'passover-api', folder),
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      messages: {
        extractorMessageReporting: {
          default: { logLevel: 'warning' },
          // No release tags: everything that is exported is public.
          'ae-missing-release-tag': { logLevel: 'none' },
          'ae-undocumented': { logLevel: 'none' },
          // A type that an export uses and the entry does not export. The report would name its line, and change with each comment above it.
          'ae-forgotten-export': { logLevel: 'none' },
        },
        tsdocMessageReporting: { default: { logLevel: 'warning' }, 'tsdoc-escape-greater-than': { logLevel: 'none' } },
      },
    },
    configObjectFullPath: undefined,
    packageJsonFullPath: join(projectFolder, 'package.json'),
  })
}

const entries = PACKAGES.flatMap(entryPoints)
const files = entries.map(({ types }) => types)
let compilerState
for (const entry of entries) {
  const config = configOf(entry, files)
  mkdirSync(config.reportFolder, { recursive: true })
  compilerState ??= CompilerState.create(config)
  const report = relative(ROOT, config.reportFilePath).replaceAll(sep, '/')
  const problems = []
  const { apiReportChanged } = Extractor.invoke(config, {
    compilerState,
    localBuild: !check,
    printApiReportDiff: check,
    messageCallback(message) {
      const { messageId, logLevel, text, sourceFilePath, sourceFileLine } = message
      if (logLevel === 'none') return
      message.handled = true
      if (messageId === 'console-api-report-diff') problems.push(text)
      // `apiReportChanged` says whether the report differs. Other console messages, such as `console-preamble`, are not problems.
      if (messageId.startsWith('console-') || (logLevel !== 'warning' && logLevel !== 'error')) return
      problems.push(`${sourceFilePath ? `${relative(ROOT, sourceFilePath)}:${sourceFileLine}: ` : ''}${messageId}: ${text}`)
    },
  })
  if (check && apiReportChanged) problems.push(`${report} is not what the code says; run \`node infra/setup/api-report.mjs\`.`)
  for (const problem of problems) process.stderr.write(`${problem}\n`)
  if (problems.length > 0) process.exitCode = 1
}
