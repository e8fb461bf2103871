import { defineConfig } from 'rolldown'

/**
 * Bundles the command, so that it starts in half of the processor time: the modules of one command are in a few files instead of hundreds
 * (infra/decisions/0137-bundle-the-command.md). `passover chaos` stays apart because its roles are processes of their own.
 */
export default defineConfig({
  // The entry says that the files of `main` cannot be opened. The validation thread is started by its file name, next to the file that starts it.
  input: { main: 'src/main.ts', entry: '../bus/src/service/entry.ts', thread: '../validation/src/thread.ts' },
  platform: 'node',
  external: ['@passover/chaos'],
  transform: { target: 'node20' },
  resolve: { conditionNames: ['source', 'node', 'import'], mainFields: ['module', 'main'] },
  output: {
    dir: 'bundle',
    cleanDir: true,
    format: 'esm',
    sourcemap: true,
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash].js',
  },
})
