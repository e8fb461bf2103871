import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import GithubSlugger from 'github-slugger'
import MarkdownIt from 'markdown-it'

/**
 * Checks that every relative link of every Markdown page names a file that exists, and a heading that the page has. Links to other sites are
 * not checked: this runs offline. Headings get the ids that GitHub gives them; docs/.vitepress/config.mjs uses the same function.
 */

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const SKIPPED = new Set(['node_modules', 'dist', 'bundle', 'cache', 'coverage'])
const EXTERNAL = /^[a-z][a-z0-9+.-]*:/i

const markdown = new MarkdownIt({ html: true })
const pages = new Map()

function* markdownFiles(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.name.startsWith('.') || SKIPPED.has(entry.name)) continue
    const path = join(folder, entry.name)
    if (entry.isDirectory()) yield* markdownFiles(path)
    else if (entry.name.endsWith('.md')) yield path
  }
}

/** Links and heading ids of a page. */
function read(path) {
  const known = pages.get(path)
  if (known) return known
  const slugger = new GithubSlugger()
  const page = { links: [], ids: new Set() }
  const tokens = markdown.parse(readFileSync(path, 'utf8').replace(/^---\n[\s\S]*?\n---\n/, ''), {})
  tokens.forEach((token, i) => {
    if (token.type === 'heading_open') page.ids.add(slugger.slug(plain(tokens[i + 1])))
    for (const part of [token, ...(token.children ?? [])]) {
      const target = part.attrGet('href') ?? part.attrGet('src')
      if (target !== null) page.links.push(target)
      if (part.type.startsWith('html_')) for (const [, , link] of part.content.matchAll(/\s(href|src)="([^"]+)"/g)) page.links.push(link)
    }
  })
  pages.set(path, page)
  return page
}

function plain(inline) {
  return inline.children.map(({ type, content }) => (type === 'text' || type === 'code_inline' ? content : '')).join('')
}

function fault(from, link) {
  if (EXTERNAL.test(link)) return undefined
  const [path, id] = decodeURI(link).split('#')
  const target = path === '' ? from : resolve(dirname(from), path)
  if (!existsSync(target)) return 'there is no such file'
  if (id === undefined || id === '') return undefined
  if (!target.endsWith('.md') || statSync(target).isDirectory()) return undefined
  return read(target).ids.has(id) ? undefined : 'the page has no such heading'
}

for (const page of markdownFiles(ROOT)) {
  for (const link of read(page).links) {
    const reason = fault(page, link)
    if (!reason) continue
    process.stderr.write(`${relative(ROOT, page)}: ${link}: ${reason}\n`)
    process.exitCode = 1
  }
}
