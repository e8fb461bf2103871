import { setPriority } from 'node:os'
import { runAudit } from '@passover/audit'
import { runDispatcher } from '@passover/dispatcher'
import { busyPolicyFile } from '../../builders/busy-policy.js'
import { insist, optionsOf, say } from './load-role.js'

/** A dispatcher or an audit as an installation runs it, but for its environment. */
const { service, servers } = optionsOf<{ service: 'dispatcher' | 'audit'; servers: string }>()
const env = {
  ...process.env,
  NATS_URL: servers,
  PASSOVER_POLICY: busyPolicyFile(),
  PASSOVER_LOG_LEVEL: process.env.PASSOVER_LOG_LEVEL ?? 'warn',
}

/** As its own main has it. */
const NICENESS = 5
if (service === 'audit') setPriority(NICENESS)
await insist<unknown>(() => (service === 'dispatcher' ? runDispatcher(env) : runAudit(env)))
say('ready')
