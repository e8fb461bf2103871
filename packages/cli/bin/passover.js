#!/usr/bin/env node
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

// A tracked file, so that npm links the command before anything is built.
const bundled = (name) => new URL(`../bundle/${name}.js`, import.meta.url)
if (existsSync(fileURLToPath(bundled('main')))) {
  const { loadProcess } = await import(bundled('entry').href)
  const { main: start } = await loadProcess(() => import(bundled('main').href))
  await start(process.argv.slice(2))
} else {
  process.stderr.write('passover is not built yet: run `npm start` or `npm run build` at the root of its repository first.\n')
  process.exitCode = 1
}
