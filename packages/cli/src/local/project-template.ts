import { PACKAGE, VERSION } from '../package-info.js'

/** Versions of the development dependencies of a new project. A test checks that this repository uses the same ones. */
const DEVELOPMENT = { '@types/node': '^20.19.0', typescript: '^7.0.2' }

/** Dependencies of the project, name to version. */
export interface Dependencies {
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
}

/** Dependencies from the registry. The schemas are a direct dependency so that the path of the policy's `$schema` exists in every package layout. */
export function registryDependencies(): Dependencies {
  const version = `^${VERSION}`
  return {
    dependencies: { '@passover/sdk': version },
    devDependencies: { '@passover/schemas': version, [PACKAGE]: version, ...DEVELOPMENT },
  }
}

/** Dependencies from tarballs, by package name. All packages are listed, because none can be fetched from a registry. */
export function tarballDependencies(tarballs: ReadonlyMap<string, string>): Dependencies {
  return { dependencies: Object.fromEntries([...tarballs].map(([name, path]) => [name, `file:${path}`])), devDependencies: DEVELOPMENT }
}

export function packageJson(name: string, { dependencies, devDependencies }: Dependencies): string {
  return document({
    name,
    private: true,
    type: 'module',
    scripts: {
      build: 'tsc -p agents',
      up: 'passover up',
      greeter: 'tsc -p agents && node agents/dist/greeter.mjs',
      alice: 'tsc -p agents && node agents/dist/alice.mjs',
    },
    dependencies,
    devDependencies,
  })
}

/** Does not list `.passover/`, which ignores itself. */
export const GITIGNORE = 'node_modules/\nagents/dist/\n'

/** The project's own files by path. The agents are `.mts` files so that they are ES modules in any project. */
export const PROJECT_FILES: Record<string, string> = {
  '.opencode/pass-over.json': document({
    $schema: '../node_modules/@passover/schemas/json/pass-over-preferences.json',
    defaults: { timeout_ms: 30_000 },
    pairs: { 'alice->greeter': { enabled: true, max_passes_per_minute: 60 } },
  }),
  'agents/tsconfig.json': document({
    compilerOptions: { strict: true, target: 'es2022', module: 'nodenext', types: ['node'], rootDir: '.', outDir: 'dist' },
  }),
  'agents/greeter.mts': `// A subagent. Start more of these processes to handle more load.
import { drainOnSignals, onPass } from '@passover/sdk'

const greeter = await onPass('greeter', async (pass) => \`Hello, \${pass.objective}!\`)
drainOnSignals(greeter)
console.log('Press Ctrl-C to stop.')
`,
  'agents/alice.mts': `// An agent that hands work to a subagent and waits for the result.
import { connect } from '@passover/sdk'

const alice = await connect('alice')
const output = await alice.passOver({
  subagent: 'greeter',
  reason: 'politeness',
  work_context: { objective: process.argv[2] ?? 'world' },
})
console.log(output.status, output.output)
await alice[Symbol.asyncDispose]()
`,
}

function document(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}
