import type { Connection } from '../connection/connection.js'
import type { Subjects } from '../subjects/subjects.js'
import type { JetStreamApi } from './jetstream-api.js'
import type { Publisher } from './publisher.js'

/** Dependencies that the parts of a bus share. */
export interface BusContext {
  link: Connection
  api: JetStreamApi
  publisher: Publisher
  subjects: Subjects
  /** Name of the agent, person or service that this connection authenticates as. */
  identity: string
}
