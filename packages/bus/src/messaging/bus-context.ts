import type { Connection } from '../connection/connection.js'
import type { Subjects } from '../subjects/subjects.js'
import type { JetStreamApi } from './jetstream-api.js'
import type { Publisher } from './publisher.js'

/** What the parts of a bus work with. */
export interface BusContext {
  link: Connection
  api: JetStreamApi
  publisher: Publisher
  subjects: Subjects
  /** The name it is connected as. */
  identity: string
}
