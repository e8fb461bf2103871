import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const root = fileURLToPath(new URL('..', import.meta.url))
/** Unit tests run the sources, which vitest transforms. */
const source = { resolve: { conditions: ['source'] }, ssr: { resolve: { conditions: ['source'], externalConditions: ['source'] } } }
/** What commands print must not depend on whether npm started the tests. */
const env = { npm_command: '' }
const common = {
  environment: 'node' as const,
  env,
  root,
  server: { deps: { inline: [/@passover\//, /packages\//, /services\//, /schemas\//] } },
}

const UNIT = ['infra/src/**/*.test.ts', '{packages,services}/*/src/**/*.test.ts', 'test/support/**/*.test.ts']
const MOCKED = '{infra,packages,services,test}/**/*.mocked.test.ts'
/** The schemas compile themselves with use: what one file read would be compiled in the next. */
const APART = [MOCKED, 'schemas/src/**/*.test.ts']
/** A property of many runs takes ten times as long on a machine that has other things to do. */
const UNIT_MS = 60_000
/** What a test puts in the place of something real is taken back after it. */
const RESTORED = { restoreMocks: true, unstubEnvs: true, unstubGlobals: true }

/**
 * All other tests run what `npm run build` made, as installed processes do: Node loads it in a third of the time that transforming the sources takes.
 * A test that imports a file of a package by its path gets the built one as well, so that there is only one copy of each module.
 */
const built = { resolve: { alias: [{ find: /^(\.\.\/.*(?:packages|services)\/[^/]+)\/src\//, replacement: '$1/dist/' }] } }
const real = {
  environment: 'node' as const,
  env,
  root,
  server: { deps: { external: [/\/dist\//] } },
  setupFiles: ['test/support/setup/coverage.ts'],
}

/**
 * Unit tests stand beside their file and do no I/O; everything under test/ uses a real server or real processes. Files of unit tests share the modules that
 * they load, which takes a fourth of the time, but for those that stand `apart`: one that puts another module in the place of a real one is a `mocked` one.
 */
export default defineConfig({
  root,
  ...source,
  test: {
    maxWorkers: 3,
    reporters: ['default'],
    coverage: {
      provider: 'v8',
      include: ['schemas/src/**/*.ts', 'packages/*/src/**/*.ts', 'services/*/src/**/*.ts'],
      // The faults of `passover chaos` are tried by running it, in processes that are killed.
      exclude: ['**/*.test.ts', '**/*.d.ts', 'packages/chaos/src/**'],
      reportOnFailure: true,
      // infra/test/coverage.mjs adds what child processes ran, and knows the thresholds.
      reporter: ['json'],
    },
    projects: [
      {
        ...source,
        test: {
          ...common,
          name: 'unit',
          include: UNIT,
          exclude: [MOCKED, '**/node_modules/**'],
          isolate: false,
          testTimeout: UNIT_MS,
          ...RESTORED,
        },
      },
      {
        ...source,
        test: { ...common, name: 'unit-apart', include: APART, exclude: ['**/node_modules/**', '**/dist/**'], testTimeout: UNIT_MS },
      },
      {
        ...built,
        test: {
          ...real,
          name: 'integration',
          include: ['test/{integration,contract,simulation}/**/*.test.ts'],
          testTimeout: 180_000,
          hookTimeout: 120_000,
        },
      },
      {
        ...built,
        test: { ...real, name: 'e2e', include: ['test/{e2e,examples}/**/*.test.ts'], testTimeout: 240_000, hookTimeout: 180_000 },
      },
      { ...built, test: { ...real, name: 'chaos', include: ['test/chaos/**/*.test.ts'], testTimeout: 300_000, hookTimeout: 120_000 } },
    ],
  },
})
