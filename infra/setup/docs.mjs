import { join } from 'node:path'
import { installApart, run } from './install-apart.mjs'
import { ROOT } from './prepare.mjs'

/**
 * `npm run docs:build` and `npm run docs:dev`: the documentation site, by VitePress. The generator has a package.json of its own in docs/, which
 * is installed here at the first use: it brings 100 MB that `npm start` and `npm test` do not need.
 */

const DOCS = join(ROOT, 'docs')

installApart(DOCS)
run(process.execPath, [join('node_modules', 'vitepress', 'bin', 'vitepress.js'), process.argv[2] ?? 'build', '.'], DOCS)
