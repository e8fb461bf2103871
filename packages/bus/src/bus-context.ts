import type { JetStreamApi } from './api.js'
import type { Link } from './link.js'
import type { Publisher } from './publish.js'
import type { Subjects } from './subjects.js'

/** What the parts of a bus work with. */
export interface BusContext {
  link: Link
  api: JetStreamApi
  publisher: Publisher
  subjects: Subjects
  /** The name it is connected as. */
  identity: string
}
