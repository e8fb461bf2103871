import { createHash, randomUUID } from 'node:crypto'
import { encode, openBus, type StoredMessage } from '@passover/bus'
import { HEADER, type PassKey } from '@passover/schemas'
import { credentialsIn } from '../cluster/access.js'
import { pause } from '../wait-for.js'
import { report, retryUntilDone, roleOptions } from './role.js'

/** Decides about held passes: approves three of five, denies one, and lets one expire. */
interface Options {
  servers: string
  folder?: string
  person: string
}

const LOOKBACK_MESSAGES = 2_000
const DECISION_DELAY_MS = 1_500
const { servers, folder, person } = roleOptions<Options>()
const bus = await retryUntilDone(() => openBus({ servers, identity: person, ...credentialsIn(folder, person) }))
const { last } = await retryUntilDone(() => bus.bounds())
await retryUntilDone(() =>
  bus.follow({ filters: [bus.subjects.all('held')], from: Math.max(1, last - LOOKBACK_MESSAGES), headers_only: true }, (stored, fact) => {
    if (fact.type === 'step') void decide(stored, fact.key)
  }),
)
report('ready')

/** Decides about one held pass. The decision depends only on the id, so that it is the same after a restart. */
async function decide(stored: StoredMessage, key: PassKey): Promise<void> {
  const chosen = createHash('sha256').update(key.id).digest()
  const kind = (chosen[0] ?? 0) % 5
  const digest = stored.headers.get(HEADER.digest)
  if (kind === 4 || digest === undefined) return
  await pause(((chosen[1] ?? 0) / 255) * DECISION_DELAY_MS)
  const verdict = kind === 3 ? 'deny' : 'approve'
  await bus.publish({
    subject: bus.subjects.decision(key, 'dispatch', person),
    headers: { [HEADER.id]: key.id, [HEADER.verdict]: verdict, [HEADER.digest]: digest, [HEADER.nonce]: randomUUID() },
    data: encode({ v: 1, verdict, digest }),
    guard: { subject: bus.subjects.decisions(key, 'dispatch'), sequence: 0 },
  })
}
