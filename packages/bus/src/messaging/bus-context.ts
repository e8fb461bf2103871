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
  /** Identity of this connection: an agent, a person, or `passover` for services. */
  identity: string
}
