import type { JetStreamApi } from '../messaging/jetstream-api.js'
import type { Subjects } from '../subjects/subjects.js'
import type { StreamUsage } from '../types/inspection.js'

/** The parts of the server's stream info that Passover reads. */
export interface StreamInfo {
  /** Server time of the answer. */
  ts: string
  config: { subjects: string[]; max_bytes: number; num_replicas: number; metadata?: Record<string, string> }
  state: { messages: number; bytes: number; first_seq: number; last_seq: number }
}

/** Reads the info of the main stream. Throws BusReadError. */
export function streamInfo(api: JetStreamApi, subjects: Subjects): Promise<StreamInfo> {
  return api.must<StreamInfo>(`STREAM.INFO.${subjects.stream}`)
}

/** Returns the fill level of the stream, and whether it accepts requests. */
export function streamUsage({ state, config }: StreamInfo, subjects: Subjects): StreamUsage {
  const requests = config.subjects.includes(subjects.all('request')) ? 'open' : 'closed'
  return { messages: state.messages, bytes: state.bytes, requests, ...(config.max_bytes > 0 ? { max_bytes: config.max_bytes } : {}) }
}
