import { PassOverError } from '@passover/core'
import { say } from '../runtime/stderr.js'
import { type FoundProject, ignoredText, searchProject } from './search.js'

/**
 * Finds the server that `passover up` runs for the project of a directory: the nearest `.passover/server.json` upward within the repository, if this
 * user's own `passover up` wrote it. A file that is not trusted is reported on stderr.
 *
 * @throws PassOverError E030 if the only file found is not trusted: connecting to another server would be unexpected.
 */
export function findProjectServer(from: string): FoundProject | undefined {
  const { project, ignored } = searchProject(from)
  const [first] = ignored
  if (!project && first) throw new PassOverError('E030', `${first.path} is ignored: ${first.why}. ${first.hint}`, { path: first.path })
  for (const one of ignored) say(ignoredText(one))
  return project
}
