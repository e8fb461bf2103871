import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { slug } from 'github-slugger'
import { defineConfig } from 'vitepress'

/** The documentation site: `npm run docs:build` writes it to docs/.vitepress/dist. */

const DOCS = fileURLToPath(new URL('..', import.meta.url))

/** Sections in reading order. Pages that `first` does not name follow by title. */
const SECTIONS = [
  { folder: 'getting-started', text: 'Getting started', first: ['quick-start', 'installation', 'first-agent', 'first-approval'] },
  { folder: 'concepts', text: 'Concepts', first: ['passes', 'journal-and-steps', 'chains-and-budgets', 'policy', 'approvals'] },
  { folder: 'guides', text: 'Guides', first: ['write-a-worker', 'command-workers', 'approving-changes'] },
  { folder: 'reference', text: 'Reference', first: ['cli', 'sdk', 'http-api', 'policy', 'configuration', 'errors'] },
  { folder: 'operations', text: 'Operations', first: ['deployment', 'production-settings', 'monitoring'] },
  { folder: 'architecture', text: 'Architecture', first: ['overview', 'protocol', 'storage', 'dispatcher', 'worker'] },
  { folder: 'quality', text: 'Quality', first: ['guarantees-and-tests', 'benchmarks'] },
]

function titleOf(path) {
  return /^# (.+)$/m.exec(readFileSync(path, 'utf8'))?.[1].replaceAll('`', '') ?? path
}

function itemsOf({ folder, first }) {
  if (!existsSync(`${DOCS}${folder}`)) return []
  const pages = readdirSync(`${DOCS}${folder}`)
    .filter((name) => name.endsWith('.md'))
    .map((name) => ({ name: name.slice(0, -3), text: titleOf(`${DOCS}${folder}/${name}`), link: `/${folder}/${name.slice(0, -3)}` }))
  const rank = ({ name }) => (first.includes(name) ? first.indexOf(name) : first.length)
  return pages.sort((a, b) => rank(a) - rank(b) || a.text.localeCompare(b.text)).map(({ text, link }) => ({ text, link }))
}

/** Files of the repository outside docs/ are not on the site: links to them stay as text. */
function dropOutsideLinks(markdown) {
  markdown.core.ruler.push('outside-links', ({ tokens, env }) => {
    for (const { children } of tokens) {
      if (!children) continue
      let dropped = 0
      for (const token of [...children]) {
        const isOutside = token.type === 'link_open' && leavesDocs(token.attrGet('href'), env.relativePath)
        if (isOutside) dropped += 1
        if (isOutside || (token.type === 'link_close' && dropped > 0)) {
          if (token.type === 'link_close') dropped -= 1
          children.splice(children.indexOf(token), 1)
        }
      }
    }
  })
}

/** Vue would read `{{ … }}` in a text as an expression. */
function escapeInterpolation(markdown) {
  const { text } = markdown.renderer.rules
  markdown.renderer.rules.text = (...args) => text(...args).replaceAll('{{', '&#123;&#123;')
}

function leavesDocs(href, page) {
  if (!href || !page || /^([a-z]+:|#|\/)/i.test(href)) return false
  return posix.join(posix.dirname(page), href).startsWith('..')
}

// biome-ignore lint/style/noDefaultExport: VitePress reads it.
export default defineConfig({
  title: 'Passover',
  description: 'Hands work from one AI agent to another, and guarantees what comes back.',
  lang: 'en',
  cleanUrls: false,
  markdown: {
    // Angle brackets and braces in prose (`<id>`, `{ id: string }`) are text: no components, no attributes.
    html: false,
    attrs: { disable: true },
    anchor: { slugify: slug },
    config: (markdown) => {
      dropOutsideLinks(markdown)
      escapeInterpolation(markdown)
    },
  },
  themeConfig: {
    // An index in the browser: no service, works offline.
    search: { provider: 'local' },
    sidebar: SECTIONS.map((section) => ({ text: section.text, items: itemsOf(section) })).filter(({ items }) => items.length > 0),
    outline: [2, 3],
  },
})
