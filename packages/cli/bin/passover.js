#!/usr/bin/env node
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

// A tracked file, so that npm links the command before anything is built.
const main = new URL('../bundle/main.js', import.meta.url)
if (existsSync(fileURLToPath(main))) {
  const { main: start } = await import(main.href)
  await start(process.argv.slice(2))
} else {
  process.stderr.write('passover is not built yet: run `npm start` or `npm run build` at the root of its repository first.\n')
  process.exitCode = 1
}
