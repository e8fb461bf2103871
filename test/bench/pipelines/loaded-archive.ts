import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect as connectClient } from '@nats-io/transport-node'
import { ARCHIVE_BUCKET, Manifest, type ManifestEntry } from '@passover/archive'
import { openBus } from '@passover/bus'
import { type NatsFixture, natsFixture } from '../../support/servers/nats.js'

/** A server with an archive as a saved folder has it, and a stream that begins behind it: everything was deleted there long ago. */
export async function loadArchive(folder: string, entries: number): Promise<NatsFixture> {
  const nats = await natsFixture()
  const bus = await openBus({ servers: nats.servers, identity: 'passover' })
  await bus.ensureTopology()
  const nc = await connectClient({ servers: nats.servers })
  const { streams } = await jetstreamManager(nc)
  const { stream } = bus.subjects
  const { config } = await streams.info(stream)
  await streams.delete(stream)
  await streams.add({ ...config, first_seq: entries + 1 })
  await nc.close()
  const manifest = await Manifest.open(bus)
  const objects = await bus.objects(ARCHIVE_BUCKET)
  for await (const line of createInterface({ input: createReadStream(join(folder, 'manifest.jsonl')) })) {
    const entry = JSON.parse(line) as ManifestEntry
    for (const name of [entry.object, entry.index]) await objects.put(name, await readFile(join(folder, name)))
    await manifest.claim(entry)
  }
  await bus[Symbol.asyncDispose]()
  return nats
}
