import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const conditions = ['source']

/** The unit tests of packages/core, as StrykerJS runs them. */
export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    include: ['packages/core/src/**/*.test.ts'],
    server: { deps: { inline: [/@passover\//, /packages\//, /schemas\//] } },
    restoreMocks: true,
    unstubEnvs: true,
    unstubGlobals: true,
    testTimeout: 60_000,
  },
})
