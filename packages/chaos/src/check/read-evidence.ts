import type { NatsConnection } from '@nats-io/transport-node'
import type { Evidence } from './archive.js'
import type { StoredMessage } from './found.js'
import { readStream } from './stream.js'

/** What the audit left, read from its buckets' streams. */
export async function readEvidence(nc: NatsConnection): Promise<Evidence> {
  const bucket = async (name: string) => newest((await readStream(nc, `KV_${name}`)).records, `$KV.${name}.`)
  const objects = objectsIn((await readStream(nc, 'OBJ_archive')).records)
  return { manifest: await bucket('archive'), passes: await bucket('passes'), objects }
}

/** The last value of each key that is not deleted. */
function newest(records: readonly StoredMessage[], prefix: string): Map<string, Uint8Array> {
  const values = new Map<string, Uint8Array>()
  for (const { subject, data, header } of records) {
    const key = subject.slice(prefix.length)
    if (header('KV-Operation')) values.delete(key)
    else values.set(key, data)
  }
  return values
}

interface Meta {
  name: string
  nuid: string
  deleted?: boolean
}

/** Objects put together from their chunks. */
function objectsIn(records: readonly StoredMessage[]): Map<string, Uint8Array> {
  const chunks = new Map<string, Uint8Array[]>()
  const metas = new Map<string, Meta>()
  for (const { subject, data } of records) {
    const [, , kind, name = ''] = subject.split('.')
    if (kind === 'C') chunks.set(name, [...(chunks.get(name) ?? []), data])
    if (kind === 'M') metas.set(name, JSON.parse(new TextDecoder().decode(data)) as Meta)
  }
  const kept = [...metas.values()].filter(({ deleted }) => !deleted)
  return new Map(kept.map(({ name, nuid }) => [name, Buffer.concat(chunks.get(nuid) ?? [])]))
}
