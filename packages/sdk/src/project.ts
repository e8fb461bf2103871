import { dirname, join, resolve } from 'node:path'
import { readTextFile } from '@passover/bus'
import { type ProjectServer, projectServer } from './settings.js'

/** The server that `passover up` runs for the project that `from` lies in: the nearest `.passover/server.json` upward. */
export function findProjectServer(from: string): ProjectServer | undefined {
  let folder = resolve(from)
  for (;;) {
    const found = readServer(join(folder, '.passover', 'server.json'))
    if (found) return found
    const above = dirname(folder)
    if (above === folder) return undefined
    folder = above
  }
}

function readServer(path: string): ProjectServer | undefined {
  const text = readTextFile(path)
  if (text === undefined) return undefined
  try {
    const parsed = projectServer.safeParse(JSON.parse(text))
    return parsed.success ? parsed.data : undefined
  } catch {
    return undefined
  }
}
