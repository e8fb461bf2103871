import { readFileSync } from 'node:fs'
import GithubSlugger from 'github-slugger'
import MarkdownIt from 'markdown-it'

const markdown = new MarkdownIt({ html: true })
const pages = new Map()

/** Returns the links of a Markdown page, and the ids of its headings as GitHub makes them; docs/.vitepress/config.mjs uses the same function. */
export function pageOf(path) {
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
